package mcpclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// sysProcess is the Windows part of a process: the job object that holds the server and all it starts.
type sysProcess struct {
	mu       sync.Mutex
	job      windows.Handle // its last handle: closing it kills everything in it
	stopping sync.Once
}

// start runs a server inside a job object. It is created suspended, so that it cannot start anything before it is in
// the job.
func start(ctx context.Context, s spawn) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.checkDir(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(s.command)
	if err != nil {
		return nil, fmt.Errorf("command %q was not found (%w); install it, or correct command in the server's "+
			"configuration", s.command, err)
	}
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	p, child, err := pipes()
	if err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	p.sys.job = job
	cmd := exec.Command(path, s.args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = child[0], child[1], child[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP,
	}
	err = cmd.Start()
	closeFiles(child[:]...)
	if err != nil {
		closeFiles(p.stdin, p.stdout, p.stderr)
		_ = windows.CloseHandle(job)
		return nil, fmt.Errorf("command %q could not be executed: %w", s.command, err)
	}
	p.pid = cmd.Process.Pid
	if err := release(job, uint32(p.pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		closeFiles(p.stdin, p.stdout, p.stderr)
		_ = windows.CloseHandle(job)
		return nil, fmt.Errorf("command %q could not be put into a job object: %w", s.command, err)
	}
	go func() {
		_ = cmd.Wait() // ProcessState says it
		p.setExit(cmd.ProcessState.String())
		p.kill() // what is left of its group ends with it
		close(p.done)
	}()
	return p, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(job)
		return 0, fmt.Errorf("configure job object: %w", err)
	}
	return job, nil
}

// release puts the suspended process into the job and lets it run.
func release(job windows.Handle, pid uint32) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if err := windows.AssignProcessToJobObject(job, h); err != nil {
		return fmt.Errorf("assign process: %w", err)
	}
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open thread: %w", err)
		}
		_, err = windows.ResumeThread(thread)
		_ = windows.CloseHandle(thread)
		if err != nil {
			return fmt.Errorf("resume thread: %w", err)
		}
		return nil
	}
	return fmt.Errorf("find the main thread: %w", err)
}

// stop gives the server, whose stdin the caller has closed, its grace and then kills the job.
func (p *process) stop() {
	p.sys.stopping.Do(func() {
		go func() {
			timer := time.NewTimer(eofGrace + termGrace)
			defer timer.Stop()
			select {
			case <-p.done:
			case <-timer.C:
				p.kill()
			}
		}()
	})
}

// kill ends everything in the job now.
func (p *process) kill() {
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	if p.sys.job != 0 {
		_ = windows.TerminateJobObject(p.sys.job, 1)
		_ = windows.CloseHandle(p.sys.job)
		p.sys.job = 0
	}
}

// Supervise is not needed on Windows, where a job object does its work; the harness never starts one.
func Supervise([]string) int {
	fmt.Fprintln(os.Stderr, "harness: "+SuperviseArg+" does not exist on Windows")
	return 2
}
