package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// segment is one active data segment of a WebAssembly module: bytes that instantiation writes to a fixed address.
type segment struct {
	offset uint32
	data   []byte
}

// Section ids of the WebAssembly binary format, version 1.
const (
	sectionCustom    = 0
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
)

// split returns the module without its data and custom sections, the outline of the module, and the data segments.
//
// A module without data can be instantiated over a memory that already holds an image, without overwriting the image. The outline
// is that module with all function bodies replaced by one instruction. It declares the same types, imports, exports and tables,
// so it fits the machine code of the module, and it is decoded and validated in a tenth of the time.
func split(wasm []byte) (module, outline []byte, segments []segment, err error) {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, nil, nil, errors.New("not a WebAssembly 1 module")
	}
	module, outline = bytes.Clone(wasm[:8]), bytes.Clone(wasm[:8])
	for rest := wasm[8:]; len(rest) > 0; {
		id := rest[0]
		size, n, err := leb32(rest[1:])
		if err != nil {
			return nil, nil, nil, err
		}
		end := 1 + n + int(size)
		if end > len(rest) {
			return nil, nil, nil, fmt.Errorf("section %d is longer than the module", id)
		}
		switch id {
		case sectionData:
			if segments, err = dataSegments(rest[1+n : end]); err != nil {
				return nil, nil, nil, err
			}
		case sectionDataCount, sectionCustom:
		case sectionCode:
			module = append(module, rest[:end]...)
			count, _, err := leb32(rest[1+n : end])
			if err != nil {
				return nil, nil, nil, err
			}
			bodies := binary.AppendUvarint(nil, uint64(count))
			for range count {
				bodies = append(bodies, 3, 0, 0x00, 0x0b) // three bytes: no locals, unreachable, end
			}
			outline = append(binary.AppendUvarint(append(outline, id), uint64(len(bodies))), bodies...)
		default:
			module = append(module, rest[:end]...)
			outline = append(outline, rest[:end]...)
		}
		rest = rest[end:]
	}
	return module, outline, segments, nil
}

// dataSegments parses a data section that holds only active segments with constant offsets.
func dataSegments(section []byte) ([]segment, error) {
	count, n, err := leb32(section)
	if err != nil {
		return nil, err
	}
	section = section[n:]
	segments := make([]segment, 0, count)
	for range count {
		// 0x00 is "active, memory 0", 0x41 is i32.const, 0x0b ends the expression.
		if len(section) < 2 || section[0] != 0 || section[1] != 0x41 {
			return nil, errors.New("a data segment is not active with a constant offset")
		}
		offset, n, err := leb32(section[2:])
		if err != nil {
			return nil, err
		}
		section = section[2+n:]
		if len(section) == 0 || section[0] != 0x0b {
			return nil, errors.New("a data segment's offset is not a constant")
		}
		size, n, err := leb32(section[1:])
		if err != nil {
			return nil, err
		}
		section = section[1+n:]
		if int(size) > len(section) {
			return nil, errors.New("a data segment is longer than its section")
		}
		segments = append(segments, segment{offset, section[:size]})
		section = section[size:]
	}
	return segments, nil
}

// leb32 decodes an unsigned LEB128 number and returns it with its length in bytes. Signed numbers from 0 to 2^31-1 are decoded correctly
// too.
func leb32(b []byte) (value uint32, n int, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<32-1 {
		return 0, 0, errors.New("bad LEB128 number")
	}
	return uint32(v), n, nil
}
