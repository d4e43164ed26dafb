package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/train"
)

// recording is a file with recorded runs, or a folder of one event a file, which is
// one run.
type recording struct {
	path   string
	events bool
}

// name is how errors and trajectory ids call it.
func (r recording) name() string {
	if r.path == "-" {
		return "stdin"
	}
	return r.path
}

// recordingNames are how files with recordings end, and how if they are compressed.
var (
	recordingNames  = []string{".json", ".jsonl", ".traj"}
	compressedNames = []string{".gz", ".zst"}
)

// isRecordingName tells whether a file in a folder is looked into.
func isRecordingName(path string) bool {
	if end := filepath.Ext(path); slices.Contains(compressedNames, end) {
		path = strings.TrimSuffix(path, end)
	}
	return slices.Contains(recordingNames, filepath.Ext(path))
}

// findRecordings lists what the paths name. Of a folder, files that hold no run are
// passed over, and named on standard error; one file must hold a run.
func findRecordings(ctx context.Context, paths []string, std streams) ([]recording, error) {
	var all []recording
	for _, path := range paths {
		if path == "-" {
			all = append(all, recording{path: path})
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, badInput(err)
		}
		if !info.IsDir() {
			all = append(all, recording{path: path})
			continue
		}
		found, err := searchFolder(ctx, path, std)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, badInput(fmt.Errorf("%s: no recorded runs: want files with them that end in %s, compressed by gzip (.gz) or zstd (.zst) or not", path, strings.Join(recordingNames, ", ")))
		}
		all = append(all, found...)
	}
	return all, nil
}

// searchFolder lists the recordings of a folder by looking for their first runs.
func searchFolder(ctx context.Context, root string, std streams) ([]recording, error) {
	var found []recording
	eventFolders := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		r := recording{path: path}
		switch {
		case entry.IsDir():
			if eventFolders[path] {
				return nil
			}
			r.events = true
		case !isRecordingName(path) || isFolder(path):
			return nil
		case eventFolders[filepath.Dir(path)] && strings.HasPrefix(entry.Name(), "event-"):
			return nil // of the run that the folder is
		case !entry.Type().IsRegular() && entry.Type()&fs.ModeSymlink == 0: // a pipe can be read only once
			found = append(found, r)
			return nil
		}
		err = r.probe(ctx, std)
		switch {
		case errors.Is(err, recorded.ErrNoRuns) && r.events:
			return nil
		case errors.Is(err, recorded.ErrNoRuns):
			fmt.Fprintf(std.err, "infinirl: passed over: %s\n", shown(err.Error()))
			return nil
		case err != nil && !errors.Is(err, recorded.ErrRefused):
			return err
		}
		if r.events {
			eventFolders[path], eventFolders[filepath.Join(path, "events")] = true, true
		}
		found = append(found, r)
		return nil
	})
	return found, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// probe returns the error of the first run.
func (r recording) probe(ctx context.Context, std streams) error {
	runs, done, err := r.open(ctx, std, recorded.Options{}, nil)
	if err != nil {
		return err
	}
	defer done()
	_, err = runs()
	return badInput(err)
}

// open returns what gives the runs one by one, and io.EOF in the end, and what lets go
// of them. Read counts the bytes that were read, if not nil.
func (r recording) open(ctx context.Context, std streams, options recorded.Options, read *int64) (next func() (recorded.Run, error), done func() error, err error) {
	if r.events {
		runs, err := recorded.ReadFolder(r.path, os.DirFS(r.path))
		if err != nil {
			return nil, nil, badInput(err)
		}
		if options != (recorded.Options{}) {
			return nil, nil, badInput(fmt.Errorf("%s: a folder of events, of which --group-by and --score read no field: want --scores, or the run in one file", r.path))
		}
		return func() (recorded.Run, error) {
			if len(runs) == 0 {
				return recorded.Run{}, io.EOF
			}
			run := runs[0]
			runs = runs[1:]
			return run, nil
		}, func() error { return nil }, nil
	}
	f, name, err := openInput(ctx, r.path, std)
	if err != nil {
		return nil, nil, err
	}
	if read == nil {
		read = new(int64)
	}
	in := recorded.Open(name, &countedReader{ctx, f, read})
	in.Options = options
	return in.Next, f.Close, nil
}

// countedReader counts bytes, and ends with the context.
type countedReader struct {
	ctx  context.Context
	from io.Reader
	read *int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(p)
	*c.read += int64(n)
	return n, err
}

// runReader reads the runs of all recordings one by one.
type runReader struct {
	recordings []recording
	options    recorded.Options
	scores     *scoreTable
	tally      *tally
	vocabulary int             // recorded ids are below it; 0: any
	progress   *train.Progress // nil: none
}

// each hands on every run with the name of its file. The name is part of ids and
// groups where there are several files, but of groups that a flag names. Runs that
// are refused are counted.
func (r *runReader) each(ctx context.Context, std streams, each func(run *recorded.Run, file string) error) error {
	total, read := r.size(), int64(0)
	for _, recording := range r.recordings {
		next, done, err := recording.open(ctx, std, r.options, &read)
		if err != nil {
			return err
		}
		err = r.eachOf(ctx, recording, next, func(run *recorded.Run) error {
			if r.progress != nil && total > 0 {
				r.progress.Status("condense: % of the files", int(min(99, 100*read/total)), 100)
			}
			return each(run, recording.name())
		})
		if err := errors.Join(err, done()); err != nil {
			return err
		}
	}
	if r.tally.read == 0 {
		return badInput(fmt.Errorf("no run is left: %d were refused, the first: %w", r.tally.refused, r.tally.refusal))
	}
	return badInput(r.scores.finish())
}

func (r *runReader) eachOf(ctx context.Context, recording recording, next func() (recorded.Run, error), each func(*recorded.Run) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		run, err := next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, recorded.ErrRefused):
			r.tally.refuse(err)
			continue
		case err != nil:
			return badInput(err)
		}
		if err := r.spelled(&run); err != nil {
			return badInput(fmt.Errorf("%s:%d: %w", recording.name(), run.Line, err))
		}
		own := run.ID
		if len(r.recordings) > 1 {
			run.ID = recording.name() + ":" + run.ID
			if r.options.GroupBy == "" {
				run.Group = recording.name() + ":" + run.Group
			}
		}
		if err := r.scores.give(&run, own); err != nil {
			return badInput(err)
		}
		r.tally.see(&run)
		if err := each(&run); err != nil {
			return err
		}
	}
}

// spelled refuses a run with recorded ids that the tokenizer does not have.
func (r *runReader) spelled(run *recorded.Run) error {
	if r.vocabulary == 0 {
		return nil
	}
	for i, m := range run.Messages {
		if ids := m.IDs; len(ids) > 0 && int(slices.Max(ids)) >= r.vocabulary {
			return fmt.Errorf("message %d: token id %d, and the tokenizer has %d: want the --tokenizer of the model that was recorded", i, slices.Max(ids), r.vocabulary)
		}
	}
	return nil
}

// size is that of all recordings, 0 if it is not known.
func (r *runReader) size() (bytes int64) {
	for _, recording := range r.recordings {
		info, err := os.Stat(recording.path)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		bytes += info.Size()
	}
	return bytes
}
