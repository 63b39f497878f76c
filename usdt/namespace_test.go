package usdt

import (
	"os"
	"os/exec"
	"testing"
)

func TestInnerPID(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nNSpid:\t7\n":           7,
		"Name:\tx\nNSpid:\t4711\t12\t1\n": 1,
		"Name:\tx\nNSpid:\n":              0,
		"Name:\tx\nNSpid:\tseven\n":       0,
		"":                                0,
	} {
		got, err := innerPID([]byte(status))
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v; want %d", status, got, err, want)
		}
	}
	own, err := OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := own.InnerPID(); pid != os.Getpid() || err != nil {
		t.Errorf("%d, %v", pid, err)
	}
}

func TestParseOffset(t *testing.T) {
	for text, want := range map[string]int64{
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic       86400   1000000\nboottime            7         0\n": 86400_001000000,
		"monotonic          -5 999999999\nboottime            0         0\n": -4_000000001,
	} {
		if got, err := parseOffset([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "boottime 0 0\n", "monotonic 0\n", "monotonic x 0\n", "monotonic 99999999999999999999 0\n"} {
		if _, err := parseOffset([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A process in another time namespace has another clock.
func TestClockOffset(t *testing.T) {
	const ahead = 3600
	sleep := exec.CommandContext(t.Context(), "unshare", "--time", "--monotonic", "3600", "--fork", "--kill-child", "sh", "-c", "echo $$; exec sleep 60")
	out, err := sleep.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sleep.Start(); err != nil {
		noNamespace(t, err)
	}
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	line := make([]byte, 16)
	n, err := out.Read(line)
	if err != nil {
		noNamespace(t, err)
	}
	pid := 0
	for _, c := range line[:n-1] {
		pid = 10*pid + int(c-'0')
	}
	p, err := OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.ClockOffset(); got != ahead*1e9 || err != nil {
		t.Errorf("%d, %v; want %d s", got, err, ahead)
	}
}

// noNamespace skips a test that cannot make a time namespace, or fails it in CI. Making one needs
// root and a kernel with CONFIG_TIME_NS. The other tests of this package, which is a library, need
// neither.
func noNamespace(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skipf("no time namespace can be made here: %v", err)
}
