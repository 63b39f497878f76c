package bpf

// SweepQueues sweeps the queues now, however long ago that was done.
func (c *Collector) SweepQueues() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.runSweep(&kernelSweepRequest{})
	return err
}
