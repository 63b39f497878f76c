package vmsource

// accounts returns the account of each user with VMs that are observed or about to be.
func (s *Source) accounts() map[int]int {
	accounts := make(map[int]int)
	for _, v := range s.vms {
		if v.exe != "" {
			accounts[v.process.User] = v.process.Account
		}
	}
	for _, c := range s.preparing {
		accounts[c.vm.User] = c.vm.Account
	}
	return accounts
}

// shareRoom divides the kernel's room for open instances among the users of the VMs: any user can open
// more instances than there is room for.
func (s *Source) shareRoom(observations ...*observation) {
	accounts := s.accounts()
	for _, o := range observations {
		if err := o.collector.ShareRoom(accounts); err != nil {
			s.note("%v", err)
		}
	}
}
