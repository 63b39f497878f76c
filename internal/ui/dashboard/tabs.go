package dashboard

// tabKeys are the keys that open the tabs, in the order of the tabs.
const tabKeys = "spmtc"

// newTabs returns the tabs of the sidebar.
func newTabs(d *Dashboard) []tab {
	return []tab{newSystemTab(d), newPlotsTab(d), newParametersTab(d), newTriggersTab(d), newConnectionTab(d)}
}
