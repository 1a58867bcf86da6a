package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"mcp-code-exec-harness/internal/embedding"
)

var _ embedding.Store = (*Store)(nil)

const (
	// maxEmbeddings bounds the vectors of all models; with 3,072 bytes each they take 150 MB.
	maxEmbeddings = 50_000
	// embeddingsUse is how exactly the store knows when a vector was last used.
	embeddingsUse = 24 * time.Hour
)

// Embeddings implements embedding.Store.
func (s *Store) Embeddings(ctx context.Context, model string, keys []embedding.Key) (_ map[embedding.Key][]byte, err error) {
	defer wrap(&err, "find vectors of texts")
	hashes, err := hexes(keys)
	if err != nil {
		return nil, err
	}
	now := s.now()
	found, aged := map[embedding.Key][]byte{}, []embedding.Key(nil)
	err = s.each(ctx, "SELECT hash, vector, used FROM embeddings WHERE model = ? AND hash IN (SELECT unhex(value) FROM json_each(?))", []any{model, hashes},
		func(row scanner) error {
			var hash, vector []byte
			var used time.Time
			err := row.Scan(&hash, &vector, instant{&used})
			if err == nil && len(hash) == len(embedding.Key{}) {
				found[embedding.Key(hash)] = vector
				if now.Sub(used) > embeddingsUse {
					aged = append(aged, embedding.Key(hash))
				}
			}
			return err
		})
	if err != nil || len(aged) == 0 {
		return found, err
	}
	if hashes, err = hexes(aged); err != nil {
		return nil, err
	}
	err = s.write(ctx, 0, func(c *conn) {
		c.exec("UPDATE embeddings SET used = ? WHERE model = ? AND hash IN (SELECT unhex(value) FROM json_each(?))", now, model, hashes)
	})
	return found, err
}

// PutEmbeddings implements embedding.Store.
func (s *Store) PutEmbeddings(ctx context.Context, model string, vectors map[embedding.Key][]byte) error {
	return s.putEmbeddings(ctx, model, vectors, maxEmbeddings)
}

// putEmbeddings keeps vectors, and most of all models together at most.
func (s *Store) putEmbeddings(ctx context.Context, model string, vectors map[embedding.Key][]byte, most int) (err error) {
	defer wrap(&err, "keep vectors of texts")
	now, bytes := s.now(), 0
	for _, v := range vectors {
		bytes += len(v)
	}
	return s.write(ctx, bytes, func(c *conn) {
		for key, vector := range vectors {
			c.exec("INSERT OR REPLACE INTO embeddings (model, hash, vector, used) VALUES (?, ?, ?, ?)", model, key[:], vector, now)
		}
		c.exec("DELETE FROM embeddings WHERE (model, hash) IN (SELECT model, hash FROM embeddings ORDER BY used DESC LIMIT -1 OFFSET ?)", most)
	})
}

// hexes is a JSON list of keys.
func hexes(keys []embedding.Key) (string, error) {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = hex.EncodeToString(k[:])
	}
	raw, err := json.Marshal(list)
	return string(raw), err
}
