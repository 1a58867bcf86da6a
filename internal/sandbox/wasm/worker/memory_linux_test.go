package worker

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
)

// TestRestoredMemory writes to the memory of many instances. The memory of each instance begins with the image, and contains zeros after it.
func TestRestoredMemory(t *testing.T) {
	t.Parallel()
	const size, reserve = 8 * pageSize, 32 * pageSize
	data := make([]byte, pageSize+size)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data)
	file, err := sealed("test", data)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	limit := &limiter{}
	limit.limit.Store(reserve)
	hot := []extent{{0, 4096}, {3 * 4096, 7 * 4096}}
	i, err := mapImage(file, pageSize, size, reserve, hot, limit)
	if err != nil {
		t.Fatal(err)
	}
	if i.pagemap == nil {
		t.Skip("this system has no /proc/self/pagemap")
	}
	want := append(bytes.Clone(data[pageSize:]), make([]byte, reserve-size)...)
	restored := 0
	var last *mappedMemory
	for n := range 50 {
		memory, err := i.memory()
		if err != nil {
			t.Fatal(err)
		}
		m := memory.(*mappedMemory)
		if m == last {
			restored++
		}
		last = m
		if m.size != size {
			t.Fatalf("instance %d begins with %d bytes", n, m.size)
		}
		buf := m.Reallocate(size)
		if n%3 != 0 {
			buf = m.Reallocate(size + uint64(n%20+1)*pageSize)
		}
		if !bytes.Equal(buf, want[:len(buf)]) {
			t.Fatalf("instance %d does not begin with the image", n)
		}
		for range rand.IntN(200) {
			buf[rand.IntN(len(buf))] ^= byte(1 + rand.IntN(255))
		}
		if n%10 == 9 {
			random.Read(buf)
		}
		m.Free()
	}
	if restored == 0 {
		t.Error("every instance got a mapping of its own")
	}
	if after, err := os.ReadFile("/proc/self/maps"); err == nil && bytes.Count(after, []byte("memfd:test")) > 2+restored {
		t.Error("mappings are left")
	}
}
