package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/safetensors"
	"github.com/infinirl/infinirl/trajectory"
)

// Layout is a way to lay a batch out in a safetensors file.
type Layout string

const (
	// Plain has every token column in full: any language maps it as it is.
	Plain Layout = "plain"
	// Packed has the spans of trainable tokens in place of the loss mask and
	// float columns over those tokens only, about half the size. What float
	// columns hold at other tokens is lost, except finite rewards: nothing
	// else there has an effect.
	Packed Layout = "packed"
)

// Names of metadata entries, and what format and version say.
const (
	metaFormat, formatName   = "format", "infinirl.batch"
	metaVersion, formatFirst = "version", "1"
	metaLayout               = "layout"
	metaTrajectoryIDs        = "trajectory_ids" // JSON arrays of strings,
	metaGroupIDs             = "group_ids"      // indexed by the row columns
	metaStatuses             = "statuses"       // of the like names
	metaErrors               = "errors"
)

// WriteSafetensors writes the batch, which must pass Validate, as a
// safetensors file. R rows, N tokens, M of them trainable in S spans:
//
//	cu_seqlens        I64 [R+1]  row i is tokens [cu_seqlens[i], cu_seqlens[i+1])
//	trajectory        I32 [R]    index into metadata trajectory_ids
//	group             I32 [R]    index into metadata group_ids (optional)
//	status            U8  [R]    index into metadata statuses (optional)
//	inv_iter          I32 [R]
//	prompt_len        I32 [R]    (optional: 0)
//	score             F64 [R]    NaN: none (optional)
//	success           U8  [R]    0 false, 1 true, 2 not told (optional: not told)
//	error             I32 [R]    index into metadata errors (optional: no error)
//	bootstrap_value   F64 [R]    (optional: 0)
//	policy_version    I64 [R]    (optional: 0)
//	oldest_policy_version I64 [R] (optional: as policy_version)
//	next_offsets      I64 [R+1]  next prompt i is entries [o[i], o[i+1]) of next_ids (optional)
//	next_ids          I32 [...]
//	condense_offsets  I64 [R+1]  record i is bytes [o[i], o[i+1]) of condense (optional)
//	condense          U8  [...]  JSON
//	token_ids         I32 [N]
//	plain:   loss_mask BOOL [N]; values, rewards, rollout_log_probs, … F32 [N], those that are there
//	packed:  spans I64 [S, 2]: [start, end) of each run of trainable tokens; values, … F32 [M]
//	         masked_rewards F32 [K] and masked_reward_index I64 [K]: rewards at other tokens (optional)
//
// Other programs may add rewards_given, BOOL [R], beside rewards: where it is false
// for all rows of a trajectory, its score is its reward. This writer has placed
// such scores already.
//
// The same batch gives the same bytes.
func (b *Batch) WriteSafetensors(w io.Writer, layout Layout) error {
	return b.writeSafetensors(w, layout)
}

// writeSafetensors writes further tensors as well.
func (b *Batch) writeSafetensors(w io.Writer, layout Layout, more ...safetensors.Tensor) error {
	if len(b.Rows) == 0 {
		return errors.New("batch: no rows")
	}
	metadata := map[string]string{metaFormat: formatName, metaVersion: formatFirst, metaLayout: string(layout)}
	tensors := append(append(b.rowTensors(metadata), tensor("token_ids", b.TokenIDs)), more...)
	switch layout {
	case Plain:
		for _, c := range b.Columns() {
			if *c.Data != nil {
				tensors = append(tensors, tensor(c.Name, *c.Data))
			}
		}
		tensors = append(tensors, tensor("loss_mask", b.LossMask))
	case Packed:
		tensors = append(tensors, b.packedTensors()...)
	default:
		return fmt.Errorf("layout %q: want %s or %s", layout, Plain, Packed)
	}
	return safetensors.Write(w, tensors, metadata)
}

// rowTensors are the row columns; their strings go to the metadata.
func (b *Batch) rowTensors(metadata map[string]string) []safetensors.Tensor {
	n := len(b.Rows)
	trajectories, groups, statuses := newTable[int32](n), newTable[int32](n), newTable[uint8](n)
	invIter, promptLen := make([]int32, n), make([]int32, n)
	score, bootstrap, version, oldest := make([]float64, n), make([]float64, n), make([]int64, n), make([]int64, n)
	success, failures := make([]uint8, n), newTable[int32](n)
	nextOffsets, next := make([]int64, n+1), []int32{}
	offsets, condense := make([]int64, n+1), []byte{}
	for i := range b.Rows {
		r := &b.Rows[i]
		trajectories.add(r.TrajectoryID)
		groups.add(r.GroupID)
		statuses.add(string(r.Status))
		invIter[i], promptLen[i] = int32(r.InvIter), int32(r.PromptLen)
		failures.add(r.Error)
		bootstrap[i], score[i], success[i] = r.BootstrapValue, math.NaN(), successUnknown
		version[i], oldest[i] = r.PolicyVersion, r.OldestPolicyVersion
		if r.HasScore {
			score[i] = r.Score
		}
		if r.HasSuccess {
			success[i] = bytesOf([]bool{r.Success})[0]
		}
		next = append(next, r.NextIDs...)
		nextOffsets[i+1] = int64(len(next))
		condense = append(condense, r.Condense...)
		offsets[i+1] = int64(len(condense))
	}
	metadata[metaTrajectoryIDs] = trajectories.names()
	tensors := []safetensors.Tensor{tensor("cu_seqlens", b.CuSeqLens), tensor("trajectory", trajectories.index), tensor("inv_iter", invIter)}
	add := func(needed bool, t ...safetensors.Tensor) {
		if needed {
			tensors = append(tensors, t...)
		}
	}
	if groups.list[0] != "" || len(groups.list) > 1 {
		metadata[metaGroupIDs] = groups.names()
		add(true, tensor("group", groups.index))
	}
	if statuses.list[0] != "" || len(statuses.list) > 1 {
		metadata[metaStatuses] = statuses.names()
		add(true, tensor("status", statuses.index))
	}
	add(slices.ContainsFunc(promptLen, func(x int32) bool { return x != 0 }), tensor("prompt_len", promptLen))
	add(slices.ContainsFunc(score, func(x float64) bool { return x == x }), tensor("score", score))
	add(slices.ContainsFunc(success, func(x uint8) bool { return x != successUnknown }), tensor("success", success))
	if failures.list[0] != "" || len(failures.list) > 1 {
		metadata[metaErrors] = failures.names()
		add(true, tensor("error", failures.index))
	}
	add(slices.ContainsFunc(bootstrap, func(x float64) bool { return x != 0 }), tensor("bootstrap_value", bootstrap))
	add(slices.ContainsFunc(version, func(x int64) bool { return x != 0 }), tensor("policy_version", version))
	add(!slices.Equal(oldest, version), tensor("oldest_policy_version", oldest))
	add(len(next) > 0, tensor("next_offsets", nextOffsets), tensor("next_ids", next))
	add(len(condense) > 0, tensor("condense_offsets", offsets), tensor("condense", condense))
	return tensors
}

// What the tensor success holds on rows that do not tell, beside 0 and 1.
const successUnknown = 2

// table turns a column of strings into numbers and a list of distinct strings.
type table[T uint8 | int32] struct {
	index  []T
	list   []string
	number map[string]T
}

func newTable[T uint8 | int32](n int) *table[T] {
	return &table[T]{index: make([]T, 0, n), number: map[string]T{}}
}

func (t *table[T]) add(s string) {
	if n := len(t.index); n > 0 && t.list[t.index[n-1]] == s { // mostly the same as before
		t.index = append(t.index, t.index[n-1])
		return
	}
	k, seen := t.number[s]
	if !seen {
		k = T(len(t.list))
		t.number[s] = k
		t.list = append(t.list, s)
	}
	t.index = append(t.index, k)
}

func (t *table[T]) names() string {
	text, err := json.Marshal(t.list)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// ReadSafetensors reads a file that WriteSafetensors, or any other program, has
// written, and validates the batch. The error names the tensor and the place.
func ReadSafetensors(r io.Reader) (*Batch, error) {
	file, err := safetensors.Read(r)
	if err != nil {
		return nil, err
	}
	return fromFile(file)
}

// ParseSafetensors is ReadSafetensors on a file in memory. The token columns of a
// plain file alias data where it is aligned; data must not change.
func ParseSafetensors(data []byte) (*Batch, error) {
	file, err := safetensors.Parse(data)
	if err != nil {
		return nil, err
	}
	if err := file.Verify(); err != nil {
		return nil, err
	}
	return fromFile(file)
}

// MapSafetensors is ParseSafetensors for a file that is mapped into memory, without a
// look at the checksum of its data: what is not used is not read.
func MapSafetensors(data []byte) (*Batch, error) {
	file, err := safetensors.Parse(data)
	if err != nil {
		return nil, err
	}
	return fromFile(file)
}

func fromFile(f *safetensors.File) (*Batch, error) {
	if got := f.Metadata[metaFormat]; got != formatName {
		return nil, fmt.Errorf("metadata %s: %q: want %q", metaFormat, chat.Excerpt(got), formatName)
	}
	if got := f.Metadata[metaVersion]; got != formatFirst {
		return nil, fmt.Errorf("metadata %s: %q: want %q", metaVersion, chat.Excerpt(got), formatFirst)
	}
	r := &tensorReader{file: f, used: map[string]bool{}}
	b := &Batch{}
	r.rows(b)
	b.TokenIDs = column[int32](r, "token_ids", -1)
	switch layout := Layout(f.Metadata[metaLayout]); layout {
	case Plain:
		r.plain(b)
	case Packed:
		r.packed(b)
	default:
		return nil, fmt.Errorf("metadata %s: %q: want %s or %s", metaLayout, chat.Excerpt(layout), Plain, Packed)
	}
	given := optional[bool](r, "rewards_given", len(b.Rows))
	for _, t := range f.Tensors {
		if r.err == nil && !r.used[t.Name] {
			r.err = fmt.Errorf("unknown tensor %q", chat.Excerpt(t.Name))
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := b.validateShape(); err != nil {
		return nil, err
	}
	trajectories, err := b.Trajectories()
	if err != nil {
		return nil, err
	}
	if given != nil && b.Rewards != nil {
		b.Rewards = slices.Clone(b.Rewards) // may be a view of the file
		if err := b.placeScores(trajectories, given); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// tensorReader takes tensors from a file until the first error.
type tensorReader struct {
	file *safetensors.File
	used map[string]bool
	err  error
}

func (r *tensorReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// optional takes a one-dimensional tensor of n entries (−1: any number), nil
// if the file has none.
func optional[T safetensors.Element](r *tensorReader, name string, n int) []T {
	t, err := r.file.Tensor(name)
	if err != nil || r.err != nil {
		return nil
	}
	r.used[name] = true
	if len(t.Shape) != 1 || n >= 0 && t.Shape[0] != n {
		r.fail("tensor %q: shape %v: want [%s]", name, t.Shape, length(n))
		return nil
	}
	x, err := view[T](t)
	if err != nil {
		r.fail("%w", err)
	}
	return x
}

func length(n int) string {
	if n < 0 {
		return "n"
	}
	return fmt.Sprint(n)
}

// column is optional for a tensor that must be there.
func column[T safetensors.Element](r *tensorReader, name string, n int) []T {
	x := optional[T](r, name, n)
	if r.err == nil && !r.used[name] {
		r.fail("tensor %q is missing", name)
	}
	return x
}

// rows reads the row columns.
func (r *tensorReader) rows(b *Batch) {
	invIter := column[int32](r, "inv_iter", -1)
	n := len(invIter)
	if n == 0 {
		r.fail("no rows")
		return
	}
	b.CuSeqLens = column[int64](r, "cu_seqlens", n+1)
	promptLen := optional[int32](r, "prompt_len", n)
	score, bootstrap := optional[float64](r, "score", n), optional[float64](r, "bootstrap_value", n)
	version, oldest := optional[int64](r, "policy_version", n), optional[int64](r, "oldest_policy_version", n)
	success := optional[uint8](r, "success", n)
	failure := names(r, optional[int32](r, "error", n), metaErrors)
	nextOffsets := optional[int64](r, "next_offsets", n+1)
	next := optional[int32](r, "next_ids", -1)
	trajectoryID := names(r, column[int32](r, "trajectory", n), metaTrajectoryIDs)
	groupID := names(r, optional[int32](r, "group", n), metaGroupIDs)
	status := names(r, optional[uint8](r, "status", n), metaStatuses)
	offsets := optional[int64](r, "condense_offsets", n+1)
	condense := optional[uint8](r, "condense", -1)
	if r.err != nil {
		return
	}
	b.Rows = make([]Row, n)
	for i := range b.Rows {
		row := &b.Rows[i]
		row.TrajectoryID, row.InvIter = trajectoryID(i), int(invIter[i])
		if groupID != nil {
			row.GroupID = groupID(i)
		}
		if status != nil {
			row.Status = trajectory.Status(status(i))
		}
		if promptLen != nil {
			row.PromptLen = int(promptLen[i])
		}
		if score != nil && score[i] == score[i] {
			row.Score, row.HasScore = score[i], true
		}
		if bootstrap != nil {
			row.BootstrapValue = bootstrap[i]
		}
		if success != nil {
			if success[i] > successUnknown {
				r.fail("tensor \"success\": row %d: %d: want 0 (false), 1 (true) or %d (not told)", i, success[i], successUnknown)
				return
			}
			row.Success, row.HasSuccess = success[i] == 1, success[i] != successUnknown
		}
		if failure != nil {
			row.Error = failure(i)
		}
		if version != nil {
			row.PolicyVersion = version[i]
		}
		row.OldestPolicyVersion = row.PolicyVersion
		if oldest != nil {
			row.OldestPolicyVersion = oldest[i]
		}
		if ids := ragged(r, "next_offsets", nextOffsets, next, i); len(ids) > 0 {
			row.NextIDs = ids
		}
		if record := ragged(r, "condense_offsets", offsets, condense, i); len(record) > 0 {
			if !json.Valid(record) {
				r.fail("tensor \"condense\": row %d: not JSON", i)
				return
			}
			row.Condense = record
		}
	}
	if offsets == nil && condense != nil {
		r.fail("tensor \"condense_offsets\" is missing")
	}
	if nextOffsets == nil && next != nil {
		r.fail("tensor \"next_offsets\" is missing")
	}
}

// ragged is entry i of a column of entries of different lengths, which the named
// offsets bound in data; nil for a column that is absent.
func ragged[T any](r *tensorReader, name string, offsets []int64, data []T, i int) []T {
	if offsets == nil || r.err != nil {
		return nil
	}
	from, to := offsets[i], offsets[i+1]
	if from < 0 || to < from || to > int64(len(data)) {
		r.fail("tensor %q: entry %d: [%d, %d) of %d", name, i, from, to, len(data))
		return nil
	}
	return data[from:to:to]
}

// names looks the numbers of a row column up in a list in the metadata.
func names[T uint8 | int32](r *tensorReader, index []T, list string) func(row int) string {
	if index == nil || r.err != nil {
		return nil
	}
	var text []string
	if err := json.Unmarshal([]byte(r.file.Metadata[list]), &text); err != nil {
		r.fail("metadata %s: want a JSON array of strings: %w", list, err)
		return nil
	}
	for i, k := range index {
		if k := int(k); k < 0 || k >= len(text) {
			r.fail("row %d: number %d of %d in metadata %s", i, k, len(text), list)
			return nil
		}
	}
	return func(row int) string { return text[index[row]] }
}

// plain reads full token columns.
func (r *tensorReader) plain(b *Batch) {
	n := len(b.TokenIDs)
	b.LossMask = column[bool](r, "loss_mask", n)
	for _, c := range b.Columns() {
		*c.Data = optional[float32](r, c.Name, n)
	}
}
