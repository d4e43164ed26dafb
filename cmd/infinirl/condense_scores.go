package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
)

// scoreTable is what --scores tells: scores by the ids of runs.
type scoreTable struct {
	name    string
	scores  map[string]float64
	used    map[string]string // the run that took it, by id
	without int               // runs that it does not score
}

// readScores reads a table as JSON Lines or CSV, nil if there is none.
func readScores(ctx context.Context, path string, std streams) (*scoreTable, error) {
	if path == "" {
		return nil, nil
	}
	f, name, err := openInput(ctx, path, std)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &scoreTable{name: name, scores: make(map[string]float64), used: make(map[string]string)}
	if err := s.read(bufio.NewReader(f)); err != nil {
		return nil, badInput(fmt.Errorf("--scores: %w", err))
	}
	return s, nil
}

func (s *scoreTable) read(r *bufio.Reader) error {
	if start, _ := r.Peek(3); bytes.Equal(start, []byte("\ufeff")) { // a byte order mark, as some editors write
		r.Discard(len(start))
	}
	start, err := r.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s:1: the file is empty", s.name)
	case err != nil:
		return fmt.Errorf("%s: %w", s.name, err)
	case start[0] == '{':
		return s.readLines(r)
	case start[0] == '[':
		return fmt.Errorf(`%s:1: a JSON array: want JSON Lines {"id": ..., "score": ...}, one a line, or CSV with the columns id and score`, s.name)
	}
	return s.readCSV(r)
}

func (s *scoreTable) readLines(r *bufio.Reader) error {
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", s.name, number, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			id, score, err := scoreOf(line)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", s.name, number, err)
			}
			if err := s.add(number, id, score); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// noNumber is a score that Python's JSON writes and no JSON has.
var noNumber = regexp.MustCompile(`:\s*([-+]?(?i:nan|inf|infinity))\s*[,}]`)

// scoreOf reads a line: an object with id and score, and with what else there may be,
// each once.
func scoreOf(line []byte) (id, score string, err error) {
	wrong := errors.New(`want {"id": ..., "score": ...}`)
	defer func() {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the line ends within the object")
		}
	}()
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return "", "", wrong
	}
	fields := make(map[string]any)
	for d.More() {
		name, err := d.Token()
		var value any
		if err == nil {
			err = d.Decode(&value)
		}
		if found := noNumber.FindSubmatch(line); err != nil && found != nil {
			return "", "", fmt.Errorf("%s: want finite numbers", found[1])
		}
		if err != nil {
			return "", "", err
		}
		key, _ := name.(string) // nothing else stands there
		if _, twice := fields[key]; twice {
			return "", "", fmt.Errorf("field %q comes twice", chat.Excerpt(key))
		}
		fields[key] = value
	}
	if _, err := d.Token(); err != nil {
		return "", "", err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", "", fmt.Errorf("more behind the object: %w", wrong)
	}
	for _, field := range []struct {
		name string
		to   *string
	}{{"id", &id}, {"score", &score}} {
		switch v := fields[field.name].(type) {
		case string, json.Number, bool:
			*field.to = fmt.Sprint(v)
		default:
			return "", "", wrong
		}
	}
	return id, score, nil
}

func (s *scoreTable) readCSV(r io.Reader) error {
	rows := csv.NewReader(r)
	rows.ReuseRecord, rows.TrimLeadingSpace = true, true
	id, score := -1, -1
	for {
		row, err := rows.Read()
		switch {
		case err == io.EOF && id < 0:
			return fmt.Errorf("%s:1: the file is empty", s.name)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", s.name, err)
		}
		number, _ := rows.FieldPos(0)
		if id < 0 {
			if id, score = slices.Index(row, "id"), slices.Index(row, "score"); id < 0 || score < 0 {
				return fmt.Errorf(`%s:%d: the first line is %q: want JSON Lines {"id": ..., "score": ...}, or CSV whose first line names the columns id and score`,
					s.name, number, chat.Excerpt(strings.Join(row, ",")))
			}
			if slices.Contains(row[id+1:], "id") || slices.Contains(row[score+1:], "score") {
				return fmt.Errorf("%s:%d: a column comes twice: want id and score once each", s.name, number)
			}
			continue
		}
		if err := s.add(number, row[id], row[score]); err != nil {
			return err
		}
	}
}

// add takes the score of an id: a number, true or false.
func (s *scoreTable) add(line int, id, text string) error {
	score, err := strconv.ParseFloat(text, 64)
	switch text {
	case "true":
		score, err = 1, nil
	case "false":
		score, err = 0, nil
	}
	if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
		return fmt.Errorf("%s:%d: score %q of %q: want a finite number", s.name, line, chat.Excerpt(text), chat.Excerpt(id))
	}
	if _, twice := s.scores[id]; twice {
		return fmt.Errorf("%s:%d: id %q comes twice", s.name, line, chat.Excerpt(id))
	}
	s.scores[id] = score
	return nil
}

// give gives a run its score: that of its id, or of the one that it has in its own
// file.
func (s *scoreTable) give(run *recorded.Run, own string) error {
	if s == nil {
		return nil
	}
	id := run.ID
	score, ok := s.scores[id]
	if !ok {
		id = own
		score, ok = s.scores[id]
	}
	if !ok {
		s.without++
		run.Score, run.HasScore = 0, false
		return nil
	}
	if before, twice := s.used[id]; twice {
		return fmt.Errorf("--scores: %q is the id of %s and of %s: want both scored by these longer names", chat.Excerpt(id), chat.Excerpt(before), chat.Excerpt(run.ID))
	}
	s.used[id] = run.ID
	run.Score, run.HasScore = score, true
	return nil
}

// finish refuses a table of which no score belongs to a run.
func (s *scoreTable) finish() error {
	if s == nil || len(s.used) > 0 {
		return nil
	}
	return fmt.Errorf("--scores: no id of %s is that of a run: see the ids that condense prints without it", s.name)
}

// print tells of scores and runs without each other.
func (s *scoreTable) print(w io.Writer) {
	if s == nil {
		return
	}
	first, left := "", 0
	for id := range s.scores {
		if _, used := s.used[id]; used {
			continue
		}
		if left++; first == "" || id < first {
			first = id
		}
	}
	if left > 0 {
		fmt.Fprintf(w, "infinirl: %s: ids that match no run: %d, such as %s\n", shown(s.name), left, shown(chat.Excerpt(first)))
	}
	if s.without > 0 {
		fmt.Fprintf(w, "infinirl: %s: runs that it does not score: %d; their rows carry no score\n", shown(s.name), s.without)
	}
}
