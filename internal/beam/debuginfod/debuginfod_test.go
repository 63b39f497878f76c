package debuginfod_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/beam/debuginfod"
	"github.com/beamscope/beamscope/usdt"
)

// fixture is a file with symbols.
const fixture = "../../../testdata/executables/dwarf5.so"

// buildID is the one of the fixture.
var buildID = func() string {
	f, err := usdt.Open(fixture)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	return f.BuildID()
}()

// serve starts a server with a handler.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func notFound(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// client returns a client with its own cache, and the path of the file that it fetches.
func client(t *testing.T, servers string) (*debuginfod.Client, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	c, err := debuginfod.New(servers, dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, filepath.Join(dir, buildID, "debuginfo")
}

// Fetch uses the first server that has a file. The second call uses the cache.
func TestFetch(t *testing.T) {
	var asked atomic.Int32
	has := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/buildid/"+buildID+"/debuginfo" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		http.ServeFile(w, r, fixture)
	})
	c, path := client(t, serve(t, notFound)+" "+has+"/")
	for range 2 {
		if err := c.Fetch(t.Context(), buildID); err != nil {
			t.Fatal(err)
		}
	}
	want, wantErr := os.ReadFile(fixture)
	if got, err := os.ReadFile(path); errors.Join(err, wantErr) != nil || !bytes.Equal(got, want) || asked.Load() != 1 {
		t.Errorf("%d bytes, %v, asked %d times", len(got), err, asked.Load())
	}
}

// Fetch replaces a file in the cache that is not of the build.
func TestUnusableCache(t *testing.T) {
	c, path := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, fixture) }))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Fetch(t.Context(), buildID); err != nil {
		t.Fatal(err)
	}
	if f, err := usdt.Open(path); err != nil || f.BuildID() != buildID || f.Close() != nil {
		t.Errorf("the file was not replaced: %v", err)
	}
}

// Bad or too large answers are refused and leave no file.
func TestBadAnswers(t *testing.T) {
	const most = 1000
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, 100*most)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil || packed.Len() > most {
		t.Fatal(err, packed.Len())
	}
	var never = make(chan struct{})
	defer close(never)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   error // nil: any
	}{
		"not there":  {notFound, debuginfod.ErrNone},
		"empty":      {func(http.ResponseWriter, *http.Request) {}, debuginfod.ErrNone},
		"no symbols": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "0123456789") }, debuginfod.ErrNone},
		"of another build": {func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, "../../../testdata/executables/variables5.so")
		}, debuginfod.ErrNone},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(most+1))
			fmt.Fprint(w, strings.Repeat("x", most+1))
		}, debuginfod.ErrLimit},
		"too large, of unknown size": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			for range 10 * most {
				fmt.Fprint(w, "x")
			}
		}, debuginfod.ErrLimit},
		"too large when unpacked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		}, debuginfod.ErrLimit},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "x")
		}, nil},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, nil},
		"links to itself": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, nil},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-never:
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, path := client(t, serve(t, test.answer))
			c.MaxBytes = most
			switch name {
			case "silent":
				c.Patience = 50 * time.Millisecond
			case "of another build":
				c.MaxBytes = 1 << 20
			}
			err := c.Fetch(t.Context(), buildID)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
				t.Errorf("%v %v are left", left, err)
			}
		})
	}
}

// Fetch asks only http and https servers, and only for valid build IDs.
func TestAddresses(t *testing.T) {
	for _, servers := range []string{"", "file:///etc", "ftp://host", "host", "https://", "https://a ://", strings.Repeat("https://a ", 9)} {
		if _, err := debuginfod.New(servers, t.TempDir()); !errors.Is(err, debuginfod.ErrServers) {
			t.Errorf("%q: error %v", servers, err)
		}
	}
	c, _ := client(t, serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	for _, id := range []string{"", "../../../etc/passwd", "94BC", "94bc/../..", "94b"} {
		if err := c.Fetch(t.Context(), id); !errors.Is(err, debuginfod.ErrNone) {
			t.Errorf("%q: error %v", id, err)
		}
	}
}

// The cache folder is that of other debuginfod clients.
func TestCacheFolder(t *testing.T) {
	for _, test := range []struct {
		environment map[string]string
		want        string
	}{
		{nil, ""},
		{map[string]string{"HOME": "/home/a"}, "/home/a/.cache/debuginfod_client"},
		{map[string]string{"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}, "/c/debuginfod_client"},
		{map[string]string{"HOME": "/home/a", "XDG_CACHE_HOME": "c"}, "/home/a/.cache/debuginfod_client"},
		{map[string]string{"HOME": "/home/a", "DEBUGINFOD_CACHE_PATH": "/d"}, "/d"},
	} {
		if got := debuginfod.Folder(func(name string) string { return test.environment[name] }); got != test.want {
			t.Errorf("%v: %q, want %q", test.environment, got, test.want)
		}
	}
}
