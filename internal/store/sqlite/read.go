package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// statements are prepared reading statements by their text: parsing one can take as long as executing it. The texts are
// constants and what the lists' filters join from constants, so that there are few.
type statements struct {
	mu     sync.Mutex
	byText map[string]*sql.Stmt
}

// query reads rows.
func (s *Store) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	stmt, err := s.prepared(ctx, text) //nolint:sqlclosecheck // it is kept, until the store is closed
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// queryRow reads one row; errors are those of its Scan.
func (s *Store) queryRow(ctx context.Context, text string, args ...any) scanner {
	stmt, err := s.prepared(ctx, text) //nolint:sqlclosecheck // it is kept, until the store is closed
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(ctx, args...)
}

type scanner interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

func (s *Store) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := s.statements.get(text); stmt != nil {
		return stmt, nil
	}
	stmt, err := s.read.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.statements.put(text, stmt)
}

func (p *statements) get(text string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byText[text]
}

// put keeps a statement, or returns the one that somebody else has kept meanwhile.
func (p *statements) put(text string, stmt *sql.Stmt) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.byText[text]; first != nil {
		return first, stmt.Close()
	}
	if p.byText == nil {
		p.byText = make(map[string]*sql.Stmt)
	}
	p.byText[text] = stmt
	return stmt, nil
}

func (p *statements) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, stmt := range p.byText {
		errs = append(errs, stmt.Close())
	}
	p.byText = nil
	return errors.Join(errs...)
}
