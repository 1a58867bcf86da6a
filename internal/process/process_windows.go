package process

import (
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// shared is the job of all processes that Start starts.
var shared = sync.OnceValues(NewJob)

func start(cmd *exec.Cmd) error {
	job, err := shared()
	if err != nil {
		return err
	}
	return job.Start(cmd)
}

// Job is a Windows job object. Its processes and their descendants end with it, and it ends with this process.
type Job struct {
	mu     sync.Mutex
	handle windows.Handle // the only handle of the job; 0 after Kill
}

// NewJob creates a job without processes. The caller must call Kill.
func NewJob() (*Job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("create job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	if _, err := windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(handle)
		return nil, fmt.Errorf("configure job object: %w", err)
	}
	return &Job{handle: handle}, nil
}

// Start starts cmd in the job, without a window and in its own console process group. It creates the process suspended, so that the process
// cannot start others before it is in the job. Start is safe for concurrent use.
func (j *Job) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := j.adopt(uint32(cmd.Process.Pid)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("put it into a job object: %w", err)
	}
	return nil
}

// adopt puts a suspended process into the job and lets it run.
func (j *Job) adopt(pid uint32) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	j.mu.Lock()
	err = windows.AssignProcessToJobObject(j.handle, h) // fails if the job was killed
	j.mu.Unlock()
	if err != nil {
		return fmt.Errorf("assign process: %w", err)
	}
	return resume(pid)
}

// resume resumes the main thread of a suspended process, which is its only thread.
func resume(pid uint32) error {
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

// Kill ends the job and all its processes now. It is idempotent and safe for concurrent use.
func (j *Job) Kill() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle != 0 {
		_ = windows.TerminateJobObject(j.handle, 1)
		_ = windows.CloseHandle(j.handle)
		j.handle = 0
	}
}
