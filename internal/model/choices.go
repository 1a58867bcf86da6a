package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Choices returns a function that returns the model with the given name. Requests may name the configured model, which "" selects too, and the
// models in allow. The function creates each model once, and is safe for concurrent use.
func Choices(allow []string, configured func() (Config, error)) func(name string) (Model, error) {
	var mu sync.Mutex
	made := map[string]Model{}
	return func(name string) (Model, error) {
		mu.Lock()
		defer mu.Unlock()
		if m := made[name]; m != nil {
			return m, nil
		}
		c, err := configured()
		if err != nil {
			return nil, err
		}
		if name != "" && name != c.Name && !slices.Contains(allow, name) {
			return nil, fmt.Errorf("model is not one that requests may name: %s (model.name, model.allow)", strings.Join(append([]string{c.Name}, allow...), ", "))
		}
		c.Name = cmp.Or(name, c.Name)
		m, err := New(c)
		if err != nil {
			return nil, err
		}
		made[name] = m
		return m, nil
	}
}
