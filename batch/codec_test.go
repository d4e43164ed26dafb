package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
)

func encode(t testing.TB, b *Batch, layout Layout) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := b.WriteSafetensors(&out, layout); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func encodeLines(t testing.TB, b *Batch) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := b.WriteJSONLines(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// whatPackedKeeps is the batch as the packed layout gives it back.
func whatPackedKeeps(b *Batch) *Batch {
	rows := make([]int, len(b.Rows))
	for i := range rows {
		rows[i] = i
	}
	out := b.Select(rows)
	for _, c := range out.Columns() {
		for t := range *c.Data {
			x := &(*c.Data)[t]
			if !out.LossMask[t] && (c.Name != "rewards" || *x-*x != 0 || *x == 0) {
				*x = 0
			}
		}
	}
	return out
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		b := randomBatch(rng, 1+rng.IntN(6))
		for name, c := range map[string]struct {
			want *Batch
			back func() (*Batch, error)
		}{
			"plain":         {b, func() (*Batch, error) { return ReadSafetensors(bytes.NewReader(encode(t, b, Plain))) }},
			"plain, parsed": {b, func() (*Batch, error) { return ParseSafetensors(encode(t, b, Plain)) }},
			"packed":        {whatPackedKeeps(b), func() (*Batch, error) { return ReadSafetensors(bytes.NewReader(encode(t, b, Packed))) }},
			"JSON Lines":    {b, func() (*Batch, error) { return ReadJSONLines(bytes.NewReader(encodeLines(t, b))) }},
		} {
			got, err := c.back()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if d := differ(c.want, got); d != "" {
				t.Fatalf("%s: %s", name, d)
			}
		}
		if !bytes.Equal(encode(t, b, Plain), encode(t, b, Plain)) {
			t.Fatal("the same batch gives other bytes")
		}
		for _, line := range bytes.Split(bytes.TrimSpace(encodeLines(t, b)), []byte("\n")) {
			if !json.Valid(line) {
				t.Fatalf("not JSON: %s", line)
			}
		}
	}
}

// TestParseAligned: a plain file in memory is not copied.
func TestParseAligned(t *testing.T) {
	t.Parallel()
	b := randomBatch(rand.New(rand.NewPCG(5, 5)), 3)
	data := encode(t, b, Plain)
	got, err := ParseSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	before := got.TokenIDs[0]
	place := bytes.Index(data, bytesOf(got.TokenIDs))
	binary.LittleEndian.PutUint32(data[place:], uint32(before+1))
	if littleEndian && got.TokenIDs[0] != before+1 {
		t.Error("token_ids were copied")
	}
	binary.LittleEndian.PutUint32(data[place:], uint32(before))  // as its checksum says
	shifted := append(make([]byte, 1, len(data)+1), data...)[1:] // no longer aligned
	if _, err := ParseSafetensors(shifted); err != nil {
		t.Errorf("unaligned: %v", err)
	}
}

// TestNumbers reads decimals as strconv does, to the bit.
func TestNumbers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 1))
	texts := []string{"0", "-0", "1e5", "1E+5", "-1.5e-3", "0.1", "16777217", "16777219", "16777217.0000000001", "9007199254740993", "123456789012345678901234567890",
		"0.000000000000000000000000001", "3.4028235e38", "3.5e38", "1e999", "-1e999", "1.00000005960464477539062500", "1.0000000596046448", "8388608.5", "1.17549435e-38", "1e-60"}
	for range 20000 {
		texts = append(texts, strconv.FormatFloat(math.Float64frombits(rng.Uint64()>>12|uint64(1023-30+rng.IntN(60))<<52), 'g', 1+rng.IntN(18), 64))
		texts = append(texts, strconv.FormatFloat(float64(math.Float32frombits(rng.Uint32())), 'g', -1, 32))
		half := float64(math.Float32frombits(rng.Uint32()>>9|127<<23)) + 1.0/(1<<24) // halfway between two float32
		texts = append(texts, strconv.FormatFloat(half, 'f', -1, 64), strconv.FormatFloat(half, 'f', 18, 64)+"1")
	}
	for _, text := range texts {
		if strings.ContainsAny(text, "NI") {
			continue
		}
		for _, bits := range []int{32, 64} {
			want, _ := strconv.ParseFloat(text, bits)
			c := cursor{data: []byte(text + ",")}
			got, err := c.number(bits)
			if bits == 32 {
				got = float64(float32(got))
			}
			if err != nil || math.Float64bits(got) != math.Float64bits(want) || c.pos != len(text) {
				t.Fatalf("%s as float%d: %v, %v: want %v", text, bits, got, err, want)
			}
		}
	}
}

const goodLine = `{"trajectory_id":"t","group_id":"g","inv_iter":0,"prompt_ids":[1],"response_ids":[2,3],"loss_mask":[1,0],"values":[0.5,0]}`

func TestLinesWithFreedoms(t *testing.T) {
	t.Parallel()
	text := "\n" + ` { "loss_mask" : [ true , false ] , "values":[ NaN, -Infinity ],` + "\t" + `"response_ids":[2,3],"prompt_ids":[1],"inv_iter":0,"trajectory_id":"\u0074\ud83d\udeb2","condense":{ "a" : [ 1 ] },"score":null,"status":"truncated","bootstrap_value":2.5,"policy_version":-3 } ` + "\r\n\n"
	b, err := ReadJSONLines(strings.NewReader(text + strings.Replace(goodLine, `"group_id":"g",`, "", 1))) // no newline at the end
	if err != nil {
		t.Fatal(err)
	}
	r := b.Rows[0]
	if r.TrajectoryID != "t🚲" || string(r.Condense) != `{"a":[1]}` || r.HasScore || r.Status != "truncated" || r.BootstrapValue != 2.5 || r.PolicyVersion != -3 || r.PromptLen != 1 {
		t.Errorf("row %+v", r)
	}
	if !b.LossMask[1] || b.LossMask[2] || b.Values[1] == b.Values[1] || !math.IsInf(float64(b.Values[2]), -1) {
		t.Errorf("mask %v, values %v", b.LossMask, b.Values)
	}
}

func TestColumnsThatSomeRowsLack(t *testing.T) {
	t.Parallel()
	line := func(id, more string) string {
		return fmt.Sprintf(`{"trajectory_id":%q,"inv_iter":0,"response_ids":[2,3],"loss_mask":[1,0]%s}`, id, more) + "\n"
	}
	b, err := ReadJSONLines(strings.NewReader(line("a", "") + line("b", `,"rewards":[1,0],"score":7`) + line("c", `,"score":5`)))
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{0, 0, 1, 0, 5, 0}; fmt.Sprint(b.Rewards) != fmt.Sprint(want) {
		t.Errorf("rewards %v: want %v: the score is the reward of the trajectory that has none", b.Rewards, want)
	}
	masked := `{"trajectory_id":"m","inv_iter":0,"response_ids":[2],"loss_mask":[0]}` + "\n"
	b, err = ReadJSONLines(strings.NewReader(masked + line("b", `,"values":[1,0]`) + strings.Replace(masked, `"m"`, `"n"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{0, 1, 0, 0}; fmt.Sprint(b.Values) != fmt.Sprint(want) {
		t.Errorf("values %v: want %v", b.Values, want)
	}
	for _, text := range []string{line("a", "") + line("b", `,"values":[1,0]`), masked + line("a", "") + line("b", `,"values":[1,0]`), line("b", `,"values":[1,0]`) + line("a", "")} {
		if _, err := ReadJSONLines(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), ": values is missing") {
			t.Errorf("values on one row of two: error %v", err)
		}
	}
}

// TestDecodersJoin decodes a file in pieces, as several goroutines would, and cuts
// rows off in between: the rows are those of one decoder.
func TestDecodersJoin(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	for range 100 {
		want := randomBatch(rng, 1+rng.IntN(6))
		var decoders, again []*LineDecoder
		for k, line := range bytes.Split(bytes.TrimSpace(encodeLines(t, want)), []byte("\n")) {
			if len(decoders) == 0 || rng.IntN(3) == 0 {
				decoders, again = append(decoders, &LineDecoder{}), append(again, &LineDecoder{})
			}
			for _, d := range []*LineDecoder{decoders[len(decoders)-1], again[len(again)-1]} {
				if err := d.Line(line, k+1); err != nil {
					t.Fatal(err)
				}
			}
		}
		joined, err := JoinLines(decoders).Batch()
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, joined); d != "" {
			t.Fatalf("joined: %s", d)
		}
		var pending LineDecoder
		heads := []*LineDecoder{}
		for _, d := range again {
			pending.Append(d)
			heads = append(heads, pending.Cut(rng.IntN(pending.Rows()+1)))
		}
		cut, err := JoinLines(append(heads, &pending)).Batch()
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, cut); d != "" {
			t.Fatalf("cut and joined: %s", d)
		}
	}
}

func TestLineErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"not an object":     {goodLine, `[1]`, `line 2: found "[1]" at byte 1: want an object`},
		"cut off":           {`0.5,0]}`, `0.5`, `line 2: values: after entry 0: the line ends: want a comma or ]`},
		"cut in a string":   {goodLine, `{"traj`, `line 2: the line ends within the string`},
		"unknown field":     {`"values"`, `"vals"`, `line 2: unknown field "vals"`},
		"twice":             {`"inv_iter":0`, `"inv_iter":0,"inv_iter":0`, `line 2: inv_iter comes twice`},
		"no id":             {`"trajectory_id":"t",`, ``, `line 2: trajectory "": trajectory_id is missing`},
		"empty id":          {`"t"`, `""`, `line 2: trajectory "": trajectory_id is empty`},
		"no inv_iter":       {`"inv_iter":0,`, ``, `line 2: trajectory "t": inv_iter is missing`},
		"no response":       {`"response_ids":[2,3],`, ``, `line 2: trajectory "t": response_ids is missing`},
		"no mask":           {`"loss_mask":[1,0],`, ``, `line 2: trajectory "t": loss_mask is missing`},
		"id is a number":    {`"t"`, `7`, `line 2: trajectory_id: found "7,\"group_id\"..." at byte 18: want a string`},
		"inv_iter is text":  {`"inv_iter":0`, `"inv_iter":"0"`, `line 2: inv_iter: found`},
		"inv_iter negative": {`"inv_iter":0`, `"inv_iter":-1`, `line 2: inv_iter: -1: want 0 or more`},
		"inv_iter fraction": {`"inv_iter":0`, `"inv_iter":0.5`, `want an integer`},
		"ids not a list":    {`[2,3]`, `{"a":2}`, `line 2: response_ids: found`},
		"id too big":        {`[2,3]`, `[2,4294967296]`, `line 2: response_ids: entry 1: 4294967296 does not fit 32 bits`},
		"id a float":        {`[2,3]`, `[2,3.0]`, `line 2: response_ids: entry 1: found "3.0],`},
		"id a string":       {`[2,3]`, `["2",3]`, `line 2: response_ids: entry 0: found`},
		"mask of 2":         {`[1,0]`, `[1,2]`, `line 2: loss_mask: entry 1: found "2],`},
		"mask of 10":        {`[1,0]`, `[10,0]`, `line 2: loss_mask: entry 0: found "10,0],`},
		"value a string":    {`[0.5,0]`, `["x",0]`, `line 2: values: entry 0: found "\"x\",0]}" at byte 116: want a number`},
		"leading zero":      {`[0.5,0]`, `[00.5,0]`, `line 2: values: entry 0: found "00.5,0]}"`},
		"bare point":        {`[0.5,0]`, `[.5,0]`, `line 2: values: entry 0`},
		"point at the end":  {`[0.5,0]`, `[5.,0]`, `line 2: values: entry 0`},
		"empty exponent":    {`[0.5,0]`, `[5e,0]`, `line 2: values: entry 0`},
		"plus":              {`[0.5,0]`, `[+5,0]`, `line 2: values: entry 0`},
		"trailing comma":    {`[0.5,0]`, `[0.5,0,]`, `line 2: values: entry 2`},
		"lengths of mask":   {`[1,0]`, `[1]`, `line 2: trajectory "t": loss_mask has 1 entries for 2 response_ids`},
		"lengths of values": {`[0.5,0]`, `[0.5]`, `line 2: trajectory "t": values has 1 entries for 2 response_ids`},
		"status":            {`"group_id":"g"`, `"status":"done"`, `line 2: status: status "done"`},
		"score":             {`"group_id":"g"`, `"score":"1"`, `line 2: score: found`},
		"success":           {`"group_id":"g"`, `"success":1`, `line 2: success: found "1,\"inv_iter\"..." at byte 32: want true or false`},
		"error":             {`"group_id":"g"`, `"error":1`, `line 2: error: found`},
		"next_ids":          {`"group_id":"g"`, `"next_ids":[1,4294967296]`, `line 2: next_ids: entry 1: 4294967296 does not fit 32 bits`},
		"oldest version":    {`"group_id":"g"`, `"oldest_policy_version":1.5`, `line 2: oldest_policy_version: found`},
		"condense":          {`"group_id":"g"`, `"condense":{"a":}`, `line 2: condense: found`},
		"after the object":  {`[0.5,0]}`, `[0.5,0]} x`, `line 2: found "x" at byte`},
		"bad UTF-8":         {`"t"`, "\"\xff\"", `line 2: trajectory_id: string that ends at byte`},
		"control character": {`"t"`, "\"\x01\"", `line 2: trajectory_id: found`},
		"lone escape":       {`"t"`, `"\x"`, `line 2: trajectory_id: string that ends at byte`},
	} {
		text := strings.Replace(goodLine, `"t"`, `"first"`, 1) + "\n" + strings.Replace(goodLine, c.old, c.new, 1) + "\n"
		_, err := ReadJSONLines(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v: want %s", name, err, c.want)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %q", name, err)
		}
	}
	for _, text := range []string{"", "\n\n  \n"} {
		if _, err := ReadJSONLines(strings.NewReader(text)); err == nil || err.Error() != "no rows" {
			t.Errorf("%q: error %v: want no rows", text, err)
		}
	}
}

func TestRowsThatDoNotFit(t *testing.T) {
	t.Parallel()
	row := func(inv int, more string) string {
		return fmt.Sprintf(`{"trajectory_id":"t","inv_iter":%d,"response_ids":[2],"loss_mask":[1]%s}`, inv, more) + "\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"duplicate":        {row(0, "") + row(0, ""), `line 2: trajectory "t": inv_iter 0 comes twice`},
		"missing":          {row(0, "") + row(2, ""), `trajectory "t": inv_iter 2 on one of 2 rows: want 0 to 1, each once`},
		"missing last":     {row(1, ""), `trajectory "t": inv_iter 1 on one of 1 rows`},
		"scores differ":    {row(0, `,"score":1`) + row(1, `,"score":2`), `line 1: trajectory "t": score 1 on inv_iter 0, 2 on an earlier segment: want one score`},
		"groups differ":    {row(0, `,"group_id":"a"`) + row(1, `,"group_id":"b"`), `trajectory "t": group_id "b" on inv_iter 1, "a" on inv_iter 0: want one group`},
		"status differs":   {row(0, `,"status":"finished"`) + row(1, `,"status":"failed"`), `trajectory "t": status "finished" on inv_iter 0, "failed" on an earlier segment`},
		"successes differ": {row(0, `,"success":true`) + row(1, `,"success":false`), `line 1: trajectory "t": success true on inv_iter 0, false on an earlier segment: want one success`},
		"errors differ":    {row(0, `,"error":"a"`) + row(1, `,"error":"b"`), `line 1: trajectory "t": error "a" on inv_iter 0, "b" on an earlier segment: want one error`},
		"versions":         {row(0, `,"policy_version":3,"oldest_policy_version":4`), `line 1: trajectory "t": inv_iter 0: oldest_policy_version 4 after policy_version 3: want at most that`},
		"score NaN":        {row(0, `,"score":NaN`), `trajectory "t": inv_iter 0: score NaN: want a finite number`},
		"bootstrap Inf":    {row(0, `,"status":"truncated","bootstrap_value":1e999`), `trajectory "t": bootstrap_value +Inf: want a finite number`},
	} {
		if _, err := ReadJSONLines(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v: want %s", name, err, c.want)
		}
	}
}

// rewrite changes the header of a safetensors file as text.
func rewrite(t *testing.T, data []byte, old, new string) []byte {
	t.Helper()
	n := binary.LittleEndian.Uint64(data)
	header := string(data[8 : 8+n])
	if !strings.Contains(header, old) {
		t.Fatalf("%q is not in the header %s", old, header)
	}
	header = strings.Replace(header, old, new, 1)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data[8+n:]...)
}

// unsealed takes the checksum, which finds every change, out of a file.
func unsealed(t *testing.T, data []byte) []byte {
	t.Helper()
	entry := regexp.MustCompile(`"infinirl\.checksum":"[^"]*",`).Find(data)
	return rewrite(t, data, string(entry), "")
}

func TestSafetensorsErrors(t *testing.T) {
	t.Parallel()
	b, err := ReadJSONLines(strings.NewReader(goodLine))
	if err != nil {
		t.Fatal(err)
	}
	plain, packed := unsealed(t, encode(t, b, Plain)), unsealed(t, encode(t, b, Packed))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":              {nil, "header length"},
		"truncated header":   {plain[:20], "header"},
		"truncated data":     {plain[:len(plain)-1], "truncated"},
		"more data":          {append(bytes.Clone(plain), 0), "bytes follow"},
		"header too long":    {append([]byte{255, 255, 255, 0, 0, 0, 0, 0}, plain[8:]...), "header"},
		"huge header":        {append([]byte{0, 0, 0, 0, 0, 0, 0, 128}, plain[8:]...), "header length"},
		"overlap":            {rewrite(t, plain, `[16,20]`, `[12,16]`), ""},
		"huge shape":         {rewrite(t, plain, `"shape":[2],"data_offsets":[0,16]`, `"shape":[4611686018427387904],"data_offsets":[0,16]`), "cu_seqlens"},
		"dtype of ids":       {rewrite(t, plain, `"token_ids":{"dtype":"I32"`, `"token_ids":{"dtype":"F32"`), `tensor "token_ids" has dtype F32, want I32`},
		"dtype of mask":      {rewrite(t, plain, `"BOOL"`, `"U8"`), `tensor "loss_mask" has dtype U8, want BOOL`},
		"unknown dtype":      {rewrite(t, plain, `"BOOL"`, `"B1"`), "B1"},
		"unknown tensor":     {rewrite(t, plain, `"values"`, `"valuez"`), `unknown tensor "valuez"`},
		"no token ids":       {rewrite(t, plain, `"token_ids"`, `"tokens"`), `tensor "token_ids" is missing`},
		"no inv_iter":        {rewrite(t, plain, `"inv_iter"`, `"inv_itr"`), `tensor "inv_iter" is missing`},
		"other format":       {rewrite(t, plain, `infinirl.batch`, `infinirl.model`), `metadata format: "infinirl.model"`},
		"other version":      {rewrite(t, plain, `"version":"1"`, `"version":"2"`), `metadata version: "2"`},
		"other layout":       {rewrite(t, plain, `"layout":"plain"`, `"layout":"dense"`), `metadata layout: "dense"`},
		"ids not a list":     {rewrite(t, plain, `"[\"t\"]"`, `"t"`), `metadata trajectory_ids: want a JSON array of strings`},
		"ids too few":        {rewrite(t, plain, `"[\"t\"]"`, `"[]"`), `row 0: number 0 of 0 in metadata trajectory_ids`},
		"plain as packed":    {rewrite(t, plain, `"layout":"plain"`, `"layout":"packed"`), `tensor "spans"`},
		"packed as plain":    {rewrite(t, packed, `"layout":"packed"`, `"layout":"plain"`), `tensor "loss_mask" is missing`},
		"mask is not a bool": {append(bytes.Clone(plain[:len(plain)-1]), 2), `tensor "loss_mask": entry 2: byte 2: want 0 or 1`},
	} {
		for _, read := range []func([]byte) (*Batch, error){
			func(d []byte) (*Batch, error) { return ReadSafetensors(bytes.NewReader(d)) },
			ParseSafetensors,
		} {
			_, err := read(c.data)
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %v: want one line", name, err)
			}
		}
		if _, err := ReadSafetensors(bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v: want %s", name, err, c.want)
		}
	}
}

// TestSafetensorsContent changes numbers in the data of valid files.
func TestSafetensorsContent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *Batch)
		want   string
	}{
		"offsets fall":     {func(b *Batch) { b.CuSeqLens = []int64{0, 4, 3} }, "cu_seqlens[2] = 3 after 4"},
		"offsets too far":  {func(b *Batch) { b.CuSeqLens = []int64{0, 3, 9} }, "cu_seqlens[2] = 9"},
		"offsets too few":  {func(b *Batch) { b.CuSeqLens = []int64{0, 3, 5} }, "cu_seqlens ends with 5 of 6 tokens"},
		"offsets from 1":   {func(b *Batch) { b.CuSeqLens = []int64{1, 3, 6} }, "cu_seqlens starts with 1"},
		"prompt too long":  {func(b *Batch) { b.Rows[1].PromptLen = 4 }, `row 1, trajectory "u", inv_iter 0: prompt_len 4 of a row of 3 tokens`},
		"prompt trainable": {func(b *Batch) { b.Rows[0].PromptLen = 2 }, `row 0, trajectory "t", inv_iter 0: loss_mask is set on prompt token 1`},
		"duplicate":        {func(b *Batch) { b.Rows[1].TrajectoryID = "t" }, `row 1: trajectory "t": inv_iter 0 comes twice`},
		"missing":          {func(b *Batch) { b.Rows[1].InvIter = 3 }, `trajectory "u": inv_iter 3`},
		"status":           {func(b *Batch) { b.Rows[1].Status = "done" }, `trajectory "u": inv_iter 0: status "done"`},
	} {
		b, err := ReadJSONLines(strings.NewReader(goodLine + "\n" + strings.Replace(goodLine, `"t"`, `"u"`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		c.change(b)
		for _, layout := range []Layout{Plain, Packed} {
			if _, err := ParseSafetensors(encode(t, b, layout)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: error %v: want %s", name, layout, err, c.want)
			}
		}
	}
}

func TestPackedSpans(t *testing.T) {
	t.Parallel()
	b, err := ReadJSONLines(strings.NewReader(`{"trajectory_id":"t","inv_iter":0,"response_ids":[1,2,3,4,5,6],"loss_mask":[1,1,0,0,1,1],"values":[1,2,3,4,5,6]}`))
	if err != nil {
		t.Fatal(err)
	}
	good := []int64{0, 2, 4, 6}
	data := unsealed(t, encode(t, b, Packed))
	at := bytes.Index(data, bytesOf(good))
	if !littleEndian {
		t.Skip("the spans are searched for as this machine writes them, and files are little-endian")
	}
	if at < 0 {
		t.Fatal("the spans are not in the packed file")
	}
	for name, bad := range map[string][]int64{
		"overlap": {0, 2, 1, 3}, "descending": {4, 6, 0, 2}, "empty": {0, 4, 6, 6}, "backwards": {2, 0, 4, 6}, "before the start": {-2, 0, 2, 4}, "behind the end": {0, 2, 5, 7}, "huge": {0, 2, 4, math.MaxInt64},
	} {
		damaged := bytes.Clone(data)
		copy(damaged[at:], bytesOf(bad))
		if _, err := ParseSafetensors(damaged); err == nil || !strings.Contains(err.Error(), `tensor "spans": entry`) {
			t.Errorf("%s: spans %v: error %v", name, bad, err)
		}
	}
}

// allocated runs f and returns the bytes that were allocated meanwhile.
func allocated(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// memoryLimit is the most that reading n bytes may allocate: buffers of some
// size to begin with; two bytes of JSON can be a token, and a token has seven
// float columns, grown by doubling.
func memoryLimit(n int) uint64 { return 4<<20 + 128*uint64(n) }

func FuzzReadSafetensors(f *testing.F) {
	rng := rand.New(rand.NewPCG(6, 1))
	for range 4 {
		b := randomBatch(rng, 2)
		f.Add(encode(f, b, Plain))
		f.Add(encode(f, b, Packed))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var b *Batch
		var err error
		if got := allocated(func() { b, err = ReadSafetensors(bytes.NewReader(data)) }); got > memoryLimit(len(data)) {
			t.Fatalf("%d bytes of input: %d allocated", len(data), got)
		}
		parsed, parseErr := ParseSafetensors(data)
		if (err == nil) != (parseErr == nil) {
			t.Fatalf("read: %v; parse: %v", err, parseErr)
		}
		if err != nil {
			return
		}
		if d := differ(b, parsed); d != "" {
			t.Fatalf("read and parsed: %s", d)
		}
		again, err := ParseSafetensors(encode(t, b, Plain))
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(b, again); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzReadJSONLines(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 4 {
		f.Add(encodeLines(f, randomBatch(rng, 2)))
	}
	f.Add([]byte(goodLine))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b *Batch
		var err error
		if got := allocated(func() { b, err = ReadJSONLines(bytes.NewReader(data)) }); got > memoryLimit(len(data)) {
			t.Fatalf("%d bytes of input: %d allocated", len(data), got)
		}
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		again, err := ReadJSONLines(bytes.NewReader(encodeLines(t, b)))
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(b, again); d != "" {
			t.Fatal(d)
		}
		parsed, err := ParseSafetensors(encode(t, b, Plain))
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(b, parsed); d != "" {
			t.Fatal(d)
		}
	})
}
