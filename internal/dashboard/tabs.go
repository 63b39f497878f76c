package dashboard

// tabKeys open the tabs, in their order.
const tabKeys = "spmtc"

// newTabs returns the tabs of the sidebar.
func newTabs(d *Dashboard) []tab {
	return []tab{newSystemTab(d), newPlotsTab(d), newParametersTab(d), newTriggersTab(d), newConnectionTab(d)}
}
