package journal

import (
	"errors"
	"fmt"
)

// Sequence numbers the records of one run and refuses records that would make the journal invalid. Every Writer uses
// a Sequence. The zero value expects a start record.
type Sequence struct {
	last  int64
	ended bool
}

// Continue returns the sequence after the given records, which must be the beginning of a journal.
func Continue(records []Record) (Sequence, error) {
	var s Sequence
	for i := range records {
		r := records[i]
		if r.Seq != s.last+1 {
			return s, fmt.Errorf("record %d is numbered %d", s.last+1, r.Seq)
		}
		if err := s.Next(&r); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Next sets r.Seq. It fails without counting r unless exactly one of r's pointers is set. It also fails if the first record is not a
// start, if a later record is a start, or if a record follows the end.
func (s *Sequence) Next(r *Record) error {
	n := s.last + 1
	set := 0
	for _, is := range [...]bool{
		r.Start != nil, r.Call != nil, r.Intent != nil, r.Answer != nil, r.Log != nil, r.End != nil,
	} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("record %d holds %d things, want exactly one", n, set)
	case n == 1 && r.Start == nil:
		return errors.New("the first record is not the start")
	case n > 1 && r.Start != nil:
		return fmt.Errorf("record %d is a second start", n)
	case s.ended:
		return fmt.Errorf("record %d follows the end", n)
	}
	s.last, s.ended = n, r.End != nil
	r.Seq = n
	return nil
}

// Last returns the number of the last record, 0 before the first.
func (s *Sequence) Last() int64 { return s.last }
