package tensorboard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"
)

// Records carry their lengths and checksums, and payloads are the protocol buffer
// bytes written out by hand from event.proto.
func TestRecordsAreFramedAndChecked(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Scalars(time.Unix(0, 0), 7, map[string]float64{"b": 2, "a": 0.5}); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	var payloads [][]byte
	for len(data) > 0 {
		length := binary.LittleEndian.Uint64(data)
		if got, want := binary.LittleEndian.Uint32(data[8:]), maskedChecksum(data[:8]); got != want {
			t.Fatalf("length checksum %x, want %x", got, want)
		}
		payload := data[12 : 12+length]
		if got, want := binary.LittleEndian.Uint32(data[12+length:]), maskedChecksum(payload); got != want {
			t.Fatalf("payload checksum %x, want %x", got, want)
		}
		payloads = append(payloads, payload)
		data = data[16+length:]
	}
	if len(payloads) != 2 {
		t.Fatalf("%d records, want 2", len(payloads))
	}
	// wall_time 0, file_version; then wall_time 0, step 7, two values in tag order.
	want := []string{
		"0900000000000000001a0d" + hex.EncodeToString([]byte("brain.Event:2")),
		"090000000000000000" + "1007" + "2a14" + "0a080a016115" + "0000003f" + "0a080a016215" + "00000040",
	}
	for i, p := range payloads {
		if got := hex.EncodeToString(p); got != want[i] {
			t.Errorf("record %d\n got %s\nwant %s", i, got, want[i])
		}
	}
}

// The CRC-32C of the digits 1 to 9 is 0xe3069283 (RFC 3720's check value).
func TestMaskedChecksum(t *testing.T) {
	crc := uint32(0xe3069283)
	if got, want := maskedChecksum([]byte("123456789")), (crc>>15|crc<<17)+0xa282ead8; got != want {
		t.Errorf("%x, want %x", got, want)
	}
}
