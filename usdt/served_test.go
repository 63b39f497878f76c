//go:build linux

package usdt

import (
	"strings"
	"testing"
)

// The type of a mount and its device are found in any list of mounts.
func TestMounts(t *testing.T) {
	const list = `22 28 0:21 / /sys rw,nosuid - sysfs sysfs rw
28 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw
31 28 0:53 / /home/a\\040-\\040b rw,nosuid,nodev - fuse.sshfs host:/ rw,user_id=1000
32 28 0:54 / /mnt rw
broken
`
	for id, want := range map[uint64]mount{
		22: {22, "0:21", "sysfs"}, 28: {28, "8:1", "ext4"}, 31: {31, "0:53", "fuse.sshfs"}, 32: {32, "0:54", ""}, 33: {},
	} {
		got, err := firstMount(strings.NewReader(list), func(m mount) bool { return m.id == id })
		if err != nil || got != want {
			t.Errorf("mount %d: %+v, %v, want %+v", id, got, err, want)
		}
	}
}

func FuzzParseMount(f *testing.F) {
	f.Add("28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw")
	f.Fuzz(func(t *testing.T, line string) {
		if m := parseMount(line); !strings.Contains(line, m.kind) || !strings.Contains(line, m.device) {
			t.Errorf("%q: %+v", line, m)
		}
	})
}
