// Package tensorboard writes scalars as TensorBoard event files.
//
// An event file is a sequence of TFRecords, each a serialised Event protocol
// buffer (tensorflow/core/util/event.proto). The three messages needed are small
// enough to encode here: a TensorFlow dependency for them would outweigh the rest
// of the module.
package tensorboard

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"sort"
	"time"
)

// Writer appends events to one file. It does no buffering of its own.
type Writer struct {
	w io.Writer
}

// NewWriter writes the file's version record and returns its writer.
func NewWriter(w io.Writer, start time.Time) (*Writer, error) {
	event := appendDouble(nil, 1, seconds(start))
	event = appendBytes(event, 3, []byte("brain.Event:2"))
	return &Writer{w}, writeRecord(w, event)
}

// Scalars writes one event that holds every scalar of a step, in tag order.
func (t *Writer) Scalars(at time.Time, step int64, scalars map[string]float64) error {
	tags := make([]string, 0, len(scalars))
	for tag := range scalars {
		tags = append(tags, tag)
	}
	sort.Strings(tags)
	var summary []byte
	for _, tag := range tags {
		value := appendBytes(nil, 1, []byte(tag))
		value = appendFloat(value, 2, float32(scalars[tag]))
		summary = appendBytes(summary, 1, value)
	}
	event := appendDouble(nil, 1, seconds(at))
	event = appendVarint(event, 2, uint64(step))
	event = appendBytes(event, 5, summary)
	return writeRecord(t.w, event)
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// writeRecord writes one TFRecord: length, its checksum, payload, its checksum.
func writeRecord(w io.Writer, payload []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(payload)))
	record = binary.LittleEndian.AppendUint32(record, maskedChecksum(record))
	record = append(record, payload...)
	record = binary.LittleEndian.AppendUint32(record, maskedChecksum(payload))
	_, err := w.Write(record)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedChecksum is TFRecord's CRC-32C, rotated and offset so that a checksum of
// data that holds checksums stays well distributed.
func maskedChecksum(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// Protocol buffer wire types.
const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

func appendKey(b []byte, field, wire int) []byte {
	return binary.AppendUvarint(b, uint64(field<<3|wire))
}

func appendVarint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(appendKey(b, field, wireVarint), v)
}

func appendBytes(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(appendKey(b, field, wireBytes), uint64(len(v)))
	return append(b, v...)
}

func appendDouble(b []byte, field int, v float64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(b, field, wireFixed8), math.Float64bits(v))
}

func appendFloat(b []byte, field int, v float32) []byte {
	return binary.LittleEndian.AppendUint32(appendKey(b, field, wireFixed4), math.Float32bits(v))
}
