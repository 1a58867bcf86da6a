package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"
)

const (
	removers     = 4                      // maximum number of removals at the same time
	firstPause   = 100 * time.Millisecond // pause between attempts of a removal; it doubles
	longestPause = 30 * time.Second
)

// acquire waits for a free slot and takes it. Every container holds a slot until the engine has removed it.
func (s *Sandbox) acquire(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		err := fmt.Errorf("all %d containers are in use or being removed (sandbox.pool): %w", cap(s.slots), context.Cause(ctx))
		if failure := s.failure.Load(); failure != nil {
			err = fmt.Errorf("%w; the last removal that failed: %w", err, *failure)
		}
		return err
	}
}

// discard kills and removes a container in the background, and then releases its slot.
func (s *Sandbox) discard(id string) {
	s.removals.Go(func() {
		if s.remove(id) {
			<-s.slots
		}
	})
}

// remove kills and removes a container. It tries until the engine has removed the container, or until Close has waited long enough. It reports
// whether the container is removed.
func (s *Sandbox) remove(id string) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.tryRemove(id)
		if err == nil {
			return true
		}
		s.failure.Store(&err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.abandoned:
			timer.Stop()
			return false // the next Open removes it
		}
	}
}

func (s *Sandbox) tryRemove(id string) error {
	select {
	case s.removing <- struct{}{}:
	case <-s.abandoned:
		return errors.New("the sandbox is closed")
	}
	defer func() { <-s.removing }()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	_, err := s.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if notFound(err) {
		return nil
	}
	return err
}
