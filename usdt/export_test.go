package usdt

// CheckEntry returns an error unless a whole function of this size is at an address, as linked.
func (f *File) CheckEntry(address, size uint64) error { return f.image.checkEntry(address, size) }
