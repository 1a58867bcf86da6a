package harness

import "mcp-code-exec-harness/internal/auth"

// Keys are the API keys in the store.
func (h *Harness) Keys() (*auth.Keys, error) {
	keep, err := h.store()
	if err != nil {
		return nil, err
	}
	return auth.NewKeys(keep), nil
}
