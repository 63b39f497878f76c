package snapshot

// A body is a sequence of blocks, with their number.
type body struct {
	data            []byte
	blocks, batches uint64
}

// add adds a block that is not a batch. It ignores an empty one.
func (b *body) add(block []byte) {
	if len(block) > 0 {
		b.data = append(b.data, block...)
		b.blocks++
	}
}

// addWindow adds a window with the blocks before it.
func (b *body) addWindow(s *slot) {
	b.add(s.config)
	b.addNotices(s)
	b.add(s.batch)
	b.batches++
}

func (b *body) addNotices(s *slot) {
	b.data = append(b.data, s.notices.data...)
	b.blocks += s.notices.blocks
}
