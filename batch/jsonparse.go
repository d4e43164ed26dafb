package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// cursor reads JSON from one line. Its methods skip white space first and
// report what they found in place of what they wanted.
type cursor struct {
	data []byte
	pos  int
}

func (c *cursor) space() {
	for c.pos < len(c.data) {
		switch c.data[c.pos] {
		case ' ', '\t', '\r', '\n':
			c.pos++
		default:
			return
		}
	}
}

// peek is the next byte after white space, 0 at the end.
func (c *cursor) peek() byte {
	c.space()
	if c.pos == len(c.data) {
		return 0
	}
	return c.data[c.pos]
}

// accept takes the next byte if it is b.
func (c *cursor) accept(b byte) bool {
	if c.peek() != b || c.pos == len(c.data) {
		return false
	}
	c.pos++
	return true
}

// literal takes the next bytes if they are s.
func (c *cursor) literal(s string) bool {
	c.space()
	if len(c.data)-c.pos < len(s) || string(c.data[c.pos:c.pos+len(s)]) != s {
		return false
	}
	c.pos += len(s)
	return true
}

// unexpected is the error that something else than want stands here.
func (c *cursor) unexpected(want string) error {
	c.space()
	rest := c.data[c.pos:]
	if len(rest) == 0 {
		return fmt.Errorf("the line ends: want %s", want)
	}
	if len(rest) > 12 {
		rest = append(bytes.Clone(rest[:12]), "..."...)
	}
	return fmt.Errorf("found %q at byte %d: want %s", rest, c.pos+1, want)
}

// string takes a JSON string.
func (c *cursor) string() (string, error) {
	raw, plain, err := c.rawString()
	if err != nil {
		return "", err
	}
	if plain {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if !utf8.Valid(raw) || json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("string that ends at byte %d: bad escape or not UTF-8", c.pos)
	}
	return s, nil
}

// rawString takes a JSON string with its quotes; plain tells that it is ASCII
// without escapes.
func (c *cursor) rawString() (raw []byte, plain bool, err error) {
	if !c.accept('"') {
		return nil, false, c.unexpected("a string")
	}
	start := c.pos - 1
	plain = true
	for ; c.pos < len(c.data); c.pos++ {
		switch b := c.data[c.pos]; {
		case b == '"':
			c.pos++
			return c.data[start:c.pos], plain, nil
		case b == '\\':
			c.pos++
			plain = false
		case b < ' ':
			return nil, false, c.unexpected("a string without control characters")
		case b >= utf8.RuneSelf:
			plain = false
		}
	}
	c.pos = len(c.data)
	return nil, false, fmt.Errorf("the line ends within the string that starts at byte %d", start+1)
}

// integer takes an integer of at most 18 digits.
func (c *cursor) integer() (int64, error) {
	c.space()
	start, data := c.pos, c.data
	k := start
	if k < len(data) && data[k] == '-' {
		k++
	}
	first := k
	var v int64
	for ; k < len(data) && data[k]-'0' <= 9; k++ {
		v = v*10 + int64(data[k]-'0')
		if k-first > 17 {
			return 0, c.unexpected("a smaller integer")
		}
	}
	if k == first || k > first+1 && data[first] == '0' || k < len(data) && (data[k] == '.' || data[k]|' ' == 'e') {
		return 0, c.unexpected("an integer")
	}
	c.pos = k
	if first > start {
		v = -v
	}
	return v, nil
}

// number takes a JSON number; what does not fit becomes an infinity. NaN and
// Infinity are taken as Python writes them, and null is NaN.
func (c *cursor) number(bits int) (float64, error) {
	c.space()
	start, data := c.pos, c.data
	k := start
	negative := k < len(data) && data[k] == '-'
	if negative {
		k++
	}
	first := k
	var mantissa uint64
	for ; k < len(data) && data[k]-'0' <= 9; k++ {
		mantissa = mantissa*10 + uint64(data[k]-'0')
	}
	digits, scale := k-first, 0
	if digits == 0 {
		return c.word()
	}
	if digits > 1 && data[first] == '0' {
		return 0, c.unexpected("a number without leading zeros")
	}
	if k < len(data) && data[k] == '.' {
		point := k
		for k++; k < len(data) && data[k]-'0' <= 9; k++ {
			mantissa = mantissa*10 + uint64(data[k]-'0')
		}
		scale = k - point - 1
		digits += scale
		if scale == 0 {
			return 0, c.unexpected("a digit after the decimal point")
		}
	}
	exponent := k < len(data) && data[k]|' ' == 'e'
	if exponent {
		k++
		if k < len(data) && (data[k] == '+' || data[k] == '-') {
			k++
		}
		before := k
		for k < len(data) && data[k]-'0' <= 9 {
			k++
		}
		if k == before {
			return 0, c.unexpected("a digit in the exponent")
		}
	}
	c.pos = k
	if digits <= 18 && mantissa < 1<<53 && scale <= 22 && !exponent {
		// Both operands are exact: one rounding (Clinger's fast path).
		v := float64(mantissa) / powersOfTen[scale]
		// Rounding again to float32 goes wrong only from halfway between two.
		if bits == 64 || math.Float64bits(v)&(1<<29-1) != 1<<28 {
			if negative {
				v = -v
			}
			return v, nil
		}
	}
	v, err := strconv.ParseFloat(unsafe.String(&data[start], k-start), bits)
	if err != nil && !math.IsInf(v, 0) {
		return 0, fmt.Errorf("number at byte %d: %w", start+1, err)
	}
	return v, nil
}

var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// word takes one of the names of what is not a number.
func (c *cursor) word() (float64, error) {
	switch {
	case c.literal("null"), c.literal("NaN"):
		return math.NaN(), nil
	case c.literal("Infinity"):
		return math.Inf(1), nil
	case c.literal("-Infinity"):
		return math.Inf(-1), nil
	}
	return 0, c.unexpected("a number")
}

// array takes a JSON array and calls each for every element, at its start.
func (c *cursor) array(each func() error) error {
	if !c.accept('[') {
		return c.unexpected("an array")
	}
	if c.accept(']') {
		return nil
	}
	for k := 0; ; k++ {
		if err := each(); err != nil {
			return fmt.Errorf("entry %d: %w", k, err)
		}
		if c.accept(',') {
			continue
		}
		if c.accept(']') {
			return nil
		}
		return fmt.Errorf("after entry %d: %w", k, c.unexpected("a comma or ]"))
	}
}

func (c *cursor) ints(x []int32) ([]int32, error) {
	err := c.array(func() error {
		v, err := c.integer()
		if err == nil && int64(int32(v)) != v {
			err = fmt.Errorf("%d does not fit 32 bits", v)
		}
		x = append(x, int32(v))
		return err
	})
	return x, err
}

func (c *cursor) floats(x []float32) ([]float32, error) {
	err := c.array(func() error {
		v, err := c.number(32)
		x = append(x, float32(v))
		return err
	})
	return x, err
}

// mask takes an array of 0, 1, false and true.
func (c *cursor) mask(x []bool) ([]bool, error) {
	err := c.array(func() error {
		switch b := c.peek(); {
		case b == '0' || b == '1':
			c.pos++
			if c.pos < len(c.data) && (c.data[c.pos]-'0' <= 9 || c.data[c.pos] == '.' || c.data[c.pos]|' ' == 'e') {
				c.pos--
				return c.unexpected("0 or 1")
			}
			x = append(x, b == '1')
		case c.literal("true"):
			x = append(x, true)
		case c.literal("false"):
			x = append(x, false)
		default:
			return c.unexpected("0 or 1")
		}
		return nil
	})
	return x, err
}

// value takes any JSON value and returns it without white space.
func (c *cursor) value() (json.RawMessage, error) {
	c.space()
	start := c.pos
	for depth := 0; c.pos < len(c.data); {
		switch b := c.data[c.pos]; b {
		case '"':
			if _, _, err := c.rawString(); err != nil {
				return nil, err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth < 0 || depth == 0 && c.data[c.pos] == ',' {
			break
		}
		c.pos++
	}
	var out bytes.Buffer
	raw := bytes.TrimSpace(c.data[start:c.pos])
	if err := json.Compact(&out, raw); err != nil || !utf8.Valid(raw) {
		c.pos = start
		return nil, c.unexpected("a JSON value")
	}
	return out.Bytes(), nil
}
