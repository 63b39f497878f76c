// Package debuginfod fetches debugging information from debuginfod servers, by the build IDs of
// executables, into the cache that gdb and other clients of debuginfod use too.
//
// The servers come from this process's own environment, never from an observed process. An answer
// is bounded in size and in time. Readers of a fetched file check that it belongs to the requested
// build.
package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrNone means that no server has the debugging information.
	ErrNone = errors.New("no debuginfod server has its debugging information")

	// ErrLimit means that an answer is larger than a client accepts.
	ErrLimit = errors.New("the answer is too large")

	// ErrServers means that a list of servers is invalid.
	ErrServers = errors.New("not an address of a debuginfod server")
)

// The limits of a client.
const (
	// MaxBytes is the maximum size of an uncompressed file. That of the VM of OTP 27 has 40 MB.
	MaxBytes = 256 << 20

	// Patience limits the total time for the answers of all servers for one file.
	Patience = 90 * time.Second

	maxServers = 8
)

// A Client fetches files. One goroutine at a time may use it.
type Client struct {
	Patience time.Duration // for one file
	MaxBytes int64         // of one file

	servers []string
	folder  string
	http    http.Client
}

// New returns a client of servers, a list of URLs with spaces between them, as DEBUGINFOD_URLS
// contains it. The folder is the cache. The error wraps ErrServers unless all URLs are of the schemes
// https or http.
func New(servers, folder string) (*Client, error) {
	c := &Client{Patience: Patience, MaxBytes: MaxBytes, folder: folder}
	for _, server := range strings.Fields(servers) {
		u, err := url.Parse(server)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return nil, fmt.Errorf("%w: %q: use https:// and a name", ErrServers, server)
		}
		c.servers = append(c.servers, strings.TrimSuffix(server, "/"))
	}
	if len(c.servers) == 0 || len(c.servers) > maxServers {
		return nil, fmt.Errorf("%w: %d of them, use 1 to %d", ErrServers, len(c.servers), maxServers)
	}
	return c, nil
}

// Folder returns the cache's folder in an environment: DEBUGINFOD_CACHE_PATH, or debuginfod_client in
// XDG_CACHE_HOME, or in the folder .cache of HOME. It is "" if the environment names none of them.
func Folder(getenv func(string) string) string {
	for _, place := range []struct{ variable, below string }{
		{"DEBUGINFOD_CACHE_PATH", ""}, {"XDG_CACHE_HOME", "debuginfod_client"}, {"HOME", ".cache/debuginfod_client"},
	} {
		if dir := getenv(place.variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, place.below)
		}
	}
	return ""
}

// aBuildID matches build IDs, of 4 to 64 bytes.
var aBuildID = regexp.MustCompile(`^([0-9a-f]{2}){4,64}$`)

// Fetch fetches the debugging information of the executable with a build ID, in lower-case
// hexadecimal, unless the cache has it. The data is then in the file debuginfo in the cache's
// folder of this name. The error wraps ErrNone if no server has it, and ErrLimit if it is too
// large.
func (c *Client) Fetch(ctx context.Context, buildID string) error {
	if !aBuildID.MatchString(buildID) {
		return fmt.Errorf("%w: %q is not a build ID", ErrNone, buildID)
	}
	path := filepath.Join(c.folder, buildID, "debuginfo")
	if isCached(path, buildID) {
		return nil
	}
	folder, err := trusted.MakeFolder(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, c.Patience, fmt.Errorf("no answer within %v", c.Patience))
	defer cancel()
	var errs []error
	for _, server := range c.servers {
		err := c.from(ctx, server, buildID, path)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// from fetches a file from one server, and checks it before it takes the place of another one.
func (c *Client) from(ctx context.Context, server, buildID, to string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/buildid/"+buildID+"/debuginfo", nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "beamscope")
	answer, err := c.http.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return ErrNone
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("the server answers %s", answer.Status)
	case answer.ContentLength > c.MaxBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrLimit, answer.ContentLength, c.MaxBytes)
	}
	file, err := os.CreateTemp(filepath.Dir(to), ".answer-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	n, err := io.Copy(file, io.LimitReader(answer.Body, c.MaxBytes+1))
	switch {
	case err != nil:
		return err
	case n > c.MaxBytes:
		return fmt.Errorf("%w: more than %d bytes", ErrLimit, c.MaxBytes)
	case n == 0:
		return fmt.Errorf("%w: an empty file", ErrNone)
	}
	if err := checkBuild(file, buildID); err != nil {
		return err
	}
	return atomicfile.WriteBy(to, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(file, 0, n))
		return err
	})
}

// isCached reports whether a file of the cache is of a build. Other clients use an empty file to note that no
// server had the data.
func isCached(path, buildID string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := usdt.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.BuildID() == buildID
}

// checkBuild returns an error that wraps ErrNone unless a file is an ELF file with this build ID.
func checkBuild(r io.ReaderAt, buildID string) error {
	f, err := usdt.NewFile(r)
	if err != nil {
		return fmt.Errorf("%w: the answer is no such file: %w", ErrNone, err)
	}
	if got := f.BuildID(); got != buildID {
		return fmt.Errorf("%w: the answer has the build ID %q", ErrNone, got)
	}
	return nil
}

// withoutURL returns the message of a request's error without the URL.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
