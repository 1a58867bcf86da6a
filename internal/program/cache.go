package program

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"sync"
)

// Cache holds compiled programs and modules by the hash of their text, and packages by their directory and package.json. If the
// files of a package change and its package.json does not, the package is not compiled again. Imports are resolved at every
// compilation. A Cache is bounded and safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	size    int
	entries map[cacheKey]*list.Element
	recent  list.List // *cacheEntry values, the most recently used first
}

type cacheKey [sha256.Size]byte

type cacheEntry struct {
	key   cacheKey
	value any
	size  int
}

// cacheBytes bounds the compiled text that a Cache holds.
const cacheBytes = 32 << 20

// NewCache makes an empty cache.
func NewCache() *Cache { return &Cache{entries: map[cacheKey]*list.Element{}} }

func keyOf(parts ...string) cacheKey {
	h := sha256.New()
	for _, part := range parts {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0xff}) // never occurs in UTF-8 text
	}
	return cacheKey(h.Sum(nil))
}

// failureBytes is the size that a Cache counts for a stored error.
const failureBytes = 4 << 10

// remembered returns the value stored under key. If there is none, it calls make, which returns the value and its size,
// and stores the value. It also stores an error that follows from the text alone, so that a text that cannot be compiled
// is compiled only once.
func remembered[T any](c *Cache, key cacheKey, make func() (T, int, error)) (T, error) {
	if value, ok := get[T](c, key); ok {
		return value, nil
	}
	if failure, ok := get[Error](c, key); ok {
		var none T
		return none, &failure
	}
	value, size, err := make()
	var failure *Error
	switch {
	case err == nil:
		c.put(key, value, size)
	case lasting(err) && errors.As(err, &failure):
		c.put(key, *failure, failureBytes)
	}
	return value, err
}

// get returns what put stored under key. Values are shared and must not be changed.
func get[T any](c *Cache, key cacheKey) (value T, ok bool) {
	if c == nil {
		return value, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil {
		return value, false
	}
	c.recent.MoveToFront(element)
	value, ok = element.Value.(*cacheEntry).value.(T)
	return value, ok
}

func (c *Cache) put(key cacheKey, value any, size int) {
	if c == nil || size > cacheBytes/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] != nil {
		return
	}
	c.entries[key] = c.recent.PushFront(&cacheEntry{key, value, size})
	for c.size += size; c.size > cacheBytes; {
		oldest := c.recent.Back()
		entry := c.recent.Remove(oldest).(*cacheEntry)
		delete(c.entries, entry.key)
		c.size -= entry.size
	}
}
