package ablation

import (
	"bytes"
	"strings"
)

// warnings is a writer that hears the lines of a run's progress and says those that warn.
type warnings struct {
	say  func(line string)
	line []byte // begun
}

func (w *warnings) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	for {
		end := bytes.IndexByte(w.line, '\n')
		if end < 0 {
			return len(p), nil
		}
		if line := string(w.line[:end]); strings.HasPrefix(line, "warning:") {
			w.say(line)
		}
		w.line = w.line[end+1:]
	}
}
