package batch

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/infinirl/infinirl/chat"
)

// Summary describes a batch for people. As JSON, a number that is not finite is a text:
// "NaN", "+Inf" or "-Inf".
type Summary struct {
	Rows            int            `json:"rows"`
	Shortest        int            `json:"shortest_row_tokens"`
	Median          int            `json:"median_row_tokens"`
	Longest         int            `json:"longest_row_tokens"`
	Trajectories    int            `json:"trajectories"`
	Groups          int            `json:"groups"`
	MostSegments    int            `json:"most_segments"`
	Status          map[string]int `json:"status"` // trajectories, by how they ended
	Tokens          int            `json:"tokens"`
	PromptTokens    int            `json:"prompt_tokens"`
	TrainableTokens int            `json:"trainable_tokens"`
	Columns         []string       `json:"columns"`
	// Described are the first trajectories.
	Described []TrajectorySummary `json:"described"`
}

// TrajectorySummary describes a trajectory.
type TrajectorySummary struct {
	ID             string           `json:"trajectory_id"`
	GroupID        string           `json:"group_id,omitempty"`
	Status         string           `json:"status"`
	Score          *Number          `json:"score,omitempty"`
	Success        *bool            `json:"success,omitempty"`
	BootstrapValue Number           `json:"bootstrap_value,omitzero"`
	Error          string           `json:"error,omitempty"`
	Segments       []SegmentSummary `json:"segments"`
}

// SegmentSummary describes a segment, in tokens.
type SegmentSummary struct {
	InvIter int `json:"inv_iter"`
	Prompt  int `json:"prompt_tokens"`
	// Runs are those of the response: n trainable tokens, or −n that are not.
	Runs   []int         `json:"response_runs"`
	Ranges []ColumnRange `json:"columns,omitempty"`
}

// ColumnRange is the least and the greatest entry of a column at the trainable tokens.
type ColumnRange struct {
	Column string   `json:"column"`
	Min    Number32 `json:"min"`
	Max    Number32 `json:"max"`
}

// Number and Number32 have a form in JSON even if they are not finite.
type (
	Number   float64
	Number32 float32
)

// MarshalJSON writes what is not finite as a text.
func (n Number) MarshalJSON() ([]byte, error) { return marshalNumber(float64(n), 64) }

// MarshalJSON writes what is not finite as a text.
func (n Number32) MarshalJSON() ([]byte, error) { return marshalNumber(float64(n), 32) }

func marshalNumber(x float64, bits int) ([]byte, error) {
	text := strconv.FormatFloat(x, 'g', -1, bits)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		text = strconv.Quote(text)
	}
	return []byte(text), nil
}

// Summarize describes the batch, and its first most trajectories segment by segment.
func (b *Batch) Summarize(most int) (*Summary, error) {
	trajectories, err := b.Trajectories()
	if err != nil {
		return nil, err
	}
	s := &Summary{Rows: len(b.Rows), Trajectories: len(trajectories), Status: map[string]int{}, Tokens: b.Tokens(), Columns: []string{}, Described: []TrajectorySummary{}}
	groups := map[string]bool{}
	for k, t := range trajectories {
		groups[t.GroupID] = true
		s.Status[string(t.Status)]++
		s.MostSegments = max(s.MostSegments, len(t.Rows))
		if k < most {
			s.Described = append(s.Described, b.summarizeTrajectory(t))
		}
	}
	s.Groups = len(groups)
	lengths := make([]int, len(b.Rows))
	for i := range b.Rows {
		start, end := b.Span(i)
		lengths[i] = end - start
		s.PromptTokens += b.Rows[i].PromptLen
		s.TrainableTokens += b.Trainable(i)
	}
	slices.Sort(lengths)
	if len(lengths) > 0 {
		s.Shortest, s.Median, s.Longest = lengths[0], lengths[len(lengths)/2], lengths[len(lengths)-1]
	}
	for _, c := range b.Columns() {
		if *c.Data != nil {
			s.Columns = append(s.Columns, c.Name)
		}
	}
	return s, nil
}

func (b *Batch) summarizeTrajectory(t Trajectory) TrajectorySummary {
	s := TrajectorySummary{ID: t.ID, GroupID: t.GroupID, Status: string(t.Status), BootstrapValue: Number(t.BootstrapValue), Error: t.Error, Segments: []SegmentSummary{}}
	if t.HasScore {
		score := Number(t.Score)
		s.Score = &score
	}
	if t.HasSuccess {
		s.Success = &t.Success
	}
	for _, i := range t.Rows {
		segment := SegmentSummary{InvIter: b.Rows[i].InvIter, Prompt: b.Rows[i].PromptLen, Runs: b.runs(i)}
		for _, c := range b.Columns() {
			if low, high, any := b.rangeOf(*c.Data, i); any && c.Label != "" {
				segment.Ranges = append(segment.Ranges, ColumnRange{c.Label, Number32(low), Number32(high)})
			}
		}
		s.Segments = append(s.Segments, segment)
	}
	return s
}

// WriteText writes the description in lines of at most 80 characters, of a segment the
// runs of the response, +n trainable and -n not:
//
//	trajectory "t0"  group "g0"  finished  score 1
//	  inv_iter 2  prompt 12  response +24 -130 +18  advantage 0.41 to 0.52
func (s *Summary) WriteText(w io.Writer) error {
	if _, err := io.WriteString(w, s.totals()); err != nil {
		return err
	}
	for k := range s.Described {
		if _, err := io.WriteString(w, "\n"+s.Described[k].text()); err != nil {
			return err
		}
	}
	if more := s.Trajectories - len(s.Described); more > 0 {
		_, err := fmt.Fprintf(w, "\nand %d more trajectories\n", more)
		return err
	}
	return nil
}

// totals are the lines about the batch as a whole.
func (s *Summary) totals() string {
	var out strings.Builder
	share := 100 * float64(s.TrainableTokens) / float64(max(1, s.Tokens))
	var statuses []string
	for _, status := range slices.Sorted(maps.Keys(s.Status)) {
		statuses = append(statuses, fmt.Sprintf("%d %s", s.Status[status], status))
	}
	columns := s.Columns
	if len(columns) == 0 {
		columns = []string{"none"}
	}
	const label = "              "
	fmt.Fprintf(&out, "rows          %d (%d tokens shortest, %d median, %d longest)\n", s.Rows, s.Shortest, s.Median, s.Longest)
	fmt.Fprintf(&out, "trajectories  %d in %d groups, up to %d segments\n", s.Trajectories, s.Groups, s.MostSegments)
	out.WriteString(wrap("status        ", ", ", label, statuses) + "\n")
	fmt.Fprintf(&out, "tokens        %d: %d prompt, %d trainable (%.1f%%)\n", s.Tokens, s.PromptTokens, s.TrainableTokens, share)
	out.WriteString(wrap("columns       ", ", ", label, columns) + "\n")
	return out.String()
}

func (t *TrajectorySummary) text() string {
	parts := []string{fmt.Sprintf("trajectory %q", t.ID)}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if t.GroupID != "" {
		add("group %q", t.GroupID)
	}
	add("%s", t.Status)
	if t.Score != nil {
		add("score %.4g", float64(*t.Score))
	}
	if t.Success != nil {
		add("success %v", *t.Success)
	}
	if t.BootstrapValue != 0 {
		add("bootstrap value %.4g", float64(t.BootstrapValue))
	}
	if t.Error != "" {
		add("error %q", chat.Excerpt(t.Error))
	}
	out := wrap("", "  ", "    ", parts) + "\n"
	for _, segment := range t.Segments {
		out += segment.text() + "\n"
	}
	return out
}

func (s *SegmentSummary) text() string {
	parts := []string{fmt.Sprintf("inv_iter %d", s.InvIter), fmt.Sprintf("prompt %d", s.Prompt), "response " + runsText(s.Runs)}
	for _, c := range s.Ranges {
		text := fmt.Sprintf("%s %.4g", c.Column, c.Min)
		if c.Min != c.Max {
			text += fmt.Sprintf(" to %.4g", c.Max)
		}
		parts = append(parts, text)
	}
	return wrap("  ", "  ", "      ", parts)
}

// runsText lists the runs of a response, the middle left out if there are many.
func runsText(runs []int) string {
	if len(runs) == 0 {
		return "empty"
	}
	list := make([]string, len(runs))
	for k, n := range runs {
		list[k] = fmt.Sprintf("%+d", n)
	}
	if n := len(list); n > 12 {
		list = slices.Concat(list[:6], []string{fmt.Sprintf("… %d more …", n-9)}, list[n-3:])
	}
	return strings.Join(list, " ")
}

// wrap joins parts to lines of at most 80 characters: the first begins with start, the
// others with indent. A part that is longer stands alone.
func wrap(start, separator, indent string, parts []string) string {
	const columns = 80
	out, at := start, utf8.RuneCountInString(start)
	for k, part := range parts {
		length := utf8.RuneCountInString(part)
		switch {
		case k == 0:
		case at+len(separator)+length > columns:
			out += strings.TrimRight(separator, " ") + "\n" + indent
			at = len(indent)
		default:
			out += separator
			at += len(separator)
		}
		out += part
		at += length
	}
	return out
}

// runs lists the runs of the response: n trainable tokens, or −n that are not.
func (b *Batch) runs(i int) []int {
	start, end := b.Span(i)
	mask := b.LossMask[start+b.Rows[i].PromptLen : end]
	list := []int{}
	for t := 0; t < len(mask); {
		k := t
		for k < len(mask) && mask[k] == mask[t] {
			k++
		}
		if mask[t] {
			list = append(list, k-t)
		} else {
			list = append(list, t-k)
		}
		t = k
	}
	return list
}

// rangeOf is the least and the greatest entry of a column at the trainable
// tokens of row i.
func (b *Batch) rangeOf(column []float32, i int) (low, high float32, any bool) {
	if column == nil {
		return 0, 0, false
	}
	start, end := b.Span(i)
	for t := start; t < end; t++ {
		if !b.LossMask[t] {
			continue
		}
		if x := column[t]; !any {
			low, high, any = x, x, true
		} else {
			low, high = min(low, x), max(high, x)
		}
	}
	return low, high, any
}

// CheckFinite returns an error that names column, trajectory, segment and
// token if a column holds a NaN or infinity at a trainable token.
func (b *Batch) CheckFinite() error {
	for _, c := range b.Columns() {
		for i := range b.Rows {
			start, end := b.Span(i)
			for t := start; t < end && *c.Data != nil; t++ {
				if x := (*c.Data)[t]; b.LossMask[t] && x-x != 0 {
					return fmt.Errorf("%s, response token %d: %s: %v: want a finite number at a trainable token", b.Describe(i), t-start-b.Rows[i].PromptLen, c.Name, x)
				}
			}
		}
	}
	return nil
}
