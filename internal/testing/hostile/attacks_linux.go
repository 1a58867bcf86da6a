package hostile

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks are all attacks, by name.
var Attacks = map[string]Attack{
	"read_file":          {Do: func(t Target) (string, error) { return read(t.File) }},
	"read_from_below":    {Do: func(t Target) (string, error) { return read("../../../../.." + t.File) }},
	"read_shadow":        {Do: func(Target) (string, error) { return read("/etc/shadow") }},
	"read_by_root":       {Do: func(t Target) (string, error) { return read("/proc/1/root" + t.File) }},
	"read_by_directory":  {Do: func(t Target) (string, error) { return read(fmt.Sprintf("/proc/%d/cwd%s", t.Pid, t.File)) }},
	"read_environment":   {Do: func(t Target) (string, error) { return read(fmt.Sprintf("/proc/%d/environ", t.Pid)) }},
	"read_environments":  {Do: environments},
	"read_memory":        {Do: func(t Target) (string, error) { return read(fmt.Sprintf("/proc/%d/mem", t.Pid)) }},
	"read_maps":          {Do: func(t Target) (string, error) { return read(fmt.Sprintf("/proc/%d/maps", t.Pid)) }},
	"read_kernel_memory": {Do: func(Target) (string, error) { return read("/dev/mem") }},
	"read_kernel_log":    {Within: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_SYSLOG, 3, 0, 0) }},
	"read_disks":         {Do: func(Target) (string, error) { return read("/dev/vda", "/dev/sda", "/dev/nvme0n1") }},
	"read_engine": {Do: func(Target) (string, error) {
		return stat("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")
	}},
	"list_directory": {Do: func(t Target) (string, error) {
		entries, err := os.ReadDir(t.Dir)
		return fmt.Sprint(entries), err
	}},
	"own_variables": {Do: func(Target) (string, error) {
		value, is := os.LookupEnv("HARNESS_CANARY")
		return value, unless(is)
	}},
	"open_descriptors": {Do: descriptors},

	"write_file":      {Do: func(t Target) (string, error) { return t.File, os.WriteFile(t.File, nil, 0o600) }},
	"write_directory": {Do: func(t Target) (string, error) { return t.Dir, os.WriteFile(filepath.Join(t.Dir, "x"), nil, 0o600) }},
	"write_root":      {Do: func(Target) (string, error) { return "/x", os.WriteFile("/x", nil, 0o600) }},
	"write_program": {Do: func(Target) (string, error) {
		return write("/proc/self/exe", "/node", "/runner.cjs", "/usr/bin/node", os.Args[0])
	}},
	"write_core_pattern": {Do: func(Target) (string, error) { return write("/proc/sys/kernel/core_pattern") }},
	"write_score":        {Within: true, Do: func(Target) (string, error) { return score() }},
	"write_link":         {Do: func(t Target) (string, error) { return "", os.Symlink(t.File, filepath.Join(t.Dir, "link")) }},
	"write_hard_link":    {Do: func(t Target) (string, error) { return "", os.Link(t.File, filepath.Join(t.Dir, "link")) }},
	"write_mode":         {Do: func(t Target) (string, error) { return "", os.Chmod(t.File, 0o4777) }},
	"write_owner":        {Do: func(t Target) (string, error) { return "", os.Chown(t.File, 0, 0) }},
	"make_device":        {Do: func(t Target) (string, error) { return "", device(t.Dir, "/", "/tmp") }},
	"remove_file":        {Do: func(t Target) (string, error) { return "", os.Remove(t.File) }},

	"signal_host":     {Do: func(t Target) (string, error) { return "", unix.Kill(t.Pid, 0) }},
	"signal_everyone": {Do: func(Target) (string, error) { return "", unix.Kill(-1, 0) }},
	"signal_parent":   {Do: parent},
	"signal_queue":    {Do: func(t Target) (string, error) { return "", raw(unix.SYS_RT_SIGQUEUEINFO, uintptr(t.Pid), 0, 0) }},

	"connect_host": {Killed: true, Do: func(t Target) (string, error) {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", t.Port), time.Second)
		return closed(conn, err)
	}},
	"connect_metadata": {Killed: true, Do: func(Target) (string, error) {
		conn, err := net.DialTimeout("tcp", "169.254.169.254:80", time.Second)
		return closed(conn, err)
	}},
	"connect_listen": {Killed: true, Do: func(Target) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		return l.Addr().String(), l.Close()
	}},
	"connect_abstract":  {Within: true, Killed: true, Do: func(Target) (string, error) { _, err := net.Listen("unix", "@x"); return "", err }},
	"connect_datagram":  {Within: true, Killed: true, Do: socket(unix.AF_INET, unix.SOCK_DGRAM)},
	"connect_raw":       {Killed: true, Do: socket(unix.AF_INET, unix.SOCK_RAW)},
	"connect_packet":    {Killed: true, Do: socket(unix.AF_PACKET, unix.SOCK_RAW)},
	"connect_netlink":   {Within: true, Killed: true, Do: socket(unix.AF_NETLINK, unix.SOCK_RAW)},
	"connect_vsock":     {Killed: true, Do: socket(unix.AF_VSOCK, unix.SOCK_STREAM)},
	"connect_algorithm": {Killed: true, Do: socket(unix.AF_ALG, unix.SOCK_SEQPACKET)},

	"spawn_fork":       {Within: true, Do: clone(uintptr(unix.SIGCHLD))},
	"spawn_namespaces": {Within: true, Killed: true, Do: clone(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | uintptr(unix.SIGCHLD))},
	"spawn_shell":      {Killed: true, Do: func(Target) (string, error) { return "", unix.Exec("/bin/sh", []string{"sh", "-c", "exit"}, nil) }},
	"spawn_file":       {Killed: true, Do: func(t Target) (string, error) { return "", unix.Exec(t.File, []string{"x"}, nil) }},
	"spawn_memory":     {Within: true, Killed: true, Do: func(Target) (string, error) { return "", memfd() }},

	"trace":             {Within: true, Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0) }},
	"trace_memory":      {Within: true, Killed: true, Do: func(t Target) (string, error) { return "", raw(unix.SYS_PROCESS_VM_READV, uintptr(t.Pid), 0, 0) }},
	"trace_descriptors": {Killed: true, Do: func(t Target) (string, error) { return "", raw(unix.SYS_PIDFD_OPEN, uintptr(t.Pid), 0, 0) }},
	"trace_faults":      {Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_USERFAULTFD, 0, 0, 0) }},
	"trace_events":      {Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) }},
	"kernel_program":    {Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_BPF, 0, 0, 0) }},
	"kernel_rings":      {Killed: true, Do: rings},
	"kernel_keys":       {Within: true, Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_KEYCTL, 0, ^uintptr(2), 1) }},
	"kernel_module":     {Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_INIT_MODULE, 0, 0, 0) }},
	"kernel_clock":      {Do: func(Target) (string, error) { return "", unix.Settimeofday(&unix.Timeval{}) }},
	"kernel_host_name":  {Do: func(Target) (string, error) { return "", unix.Sethostname([]byte("x")) }},
	"kernel_accounts":   {Do: func(Target) (string, error) { return "", raw(unix.SYS_ACCT, 0, 0, 0) }},
	"mount":             {Killed: true, Do: func(Target) (string, error) { return "", unix.Mount("x", "/", "tmpfs", 0, "") }},
	"mount_new":         {Do: func(Target) (string, error) { return "", raw(unix.SYS_FSOPEN, 0, 0, 0) }},
	"unmount":           {Killed: true, Do: func(Target) (string, error) { return "", unix.Unmount("/", unix.MNT_DETACH) }},
	"leave_root":        {Killed: true, Do: func(Target) (string, error) { return "", unix.Chroot("/") }},
	"change_root":       {Killed: true, Do: func(Target) (string, error) { return "", unix.PivotRoot("/", "/") }},
	"enter_namespaces":  {Killed: true, Do: func(Target) (string, error) { return "", unix.Unshare(unix.CLONE_NEWUSER) }},
	"join_namespaces":   {Killed: true, Do: func(Target) (string, error) { return "", unix.Setns(0, 0) }},
	"file_by_handle":    {Killed: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) }},
	"become_root":       {Do: func(Target) (string, error) { return "", raw(unix.SYS_SETUID, 0, 0, 0) }},
	"become_group":      {Do: func(Target) (string, error) { return "", raw(unix.SYS_SETRESGID, 0, 0, 0) }},
	"become_able":       {Do: able},
	"raise_limits": {Do: func(Target) (string, error) {
		return "", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	}},
	"raise_priority": {Within: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, ^uintptr(19)) }},
	"use_terminal": {Do: func(Target) (string, error) {
		return "", raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&[]byte{'x'}[0])))
	}},
	"share_memory":   {Within: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_SHMGET, 1, 4096, 0o1600) }},
	"share_messages": {Within: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_MSGGET, 1, 0o1600, 0) }},
	// The kernel counts these for a user of the machine or for all users: what one process takes, others lack.
	"share_watches": {Within: true, Do: func(Target) (string, error) { return "", raw(unix.SYS_INOTIFY_INIT1, 0, 0, 0) }},
	"share_pipes":   {Do: pipe},
	"share_timers":  {Within: true, Do: timer},
	"share_requests": {Within: true, Do: func(Target) (string, error) {
		var id uint64
		return "", raw(unix.SYS_IO_SETUP, 1<<12, uintptr(unsafe.Pointer(&id)), 0)
	}},
	"lock_memory": {Within: true, Do: func(Target) (string, error) { return "", unix.Mlockall(unix.MCL_FUTURE) }},
	"raise_scheduler": {Do: func(Target) (string, error) {
		return "", raw(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&[]int32{1}[0])))
	}},
	"raise_disk":          {Do: func(Target) (string, error) { return "", raw(unix.SYS_IOPRIO_SET, 1, 0, 1<<13) }},
	"exhaust_descriptors": {Alone: true, Do: files},
	"exhaust_memory":      {Alone: true, Do: memory(unix.MAP_PRIVATE)},
	"exhaust_shared":      {Alone: true, Do: memory(unix.MAP_SHARED)},
	"exhaust_stacks":      {Alone: true, Do: memory(unix.MAP_PRIVATE | unix.MAP_GROWSDOWN)},
	"exhaust_threads":     {Within: true, Alone: true, Do: threads},
	"exhaust_disk":        {Alone: true, Do: disk},
}

var errNothing = errors.New("there is nothing")

func unless(some bool) error {
	if some {
		return nil
	}
	return errNothing
}

func raw(number, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// read returns the beginning of the first file that it can read.
func read(paths ...string) (string, error) {
	err := errNothing
	for _, path := range paths {
		var file *os.File
		if file, err = os.Open(path); err != nil {
			continue
		}
		defer file.Close()
		text := make([]byte, 100)
		var n int
		if n, err = file.Read(text); err == nil {
			return path + ": " + string(text[:n]), nil
		}
	}
	return "", err
}

func stat(paths ...string) (string, error) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errNothing
}

// write opens a file for writing, and writes nothing.
func write(paths ...string) (string, error) {
	for _, path := range paths {
		if file, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			return path, file.Close()
		}
	}
	return "", errNothing
}

// environments tries to read the environment of another process.
func environments(Target) (string, error) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 && filepath.Base(filepath.Dir(path)) != fmt.Sprint(os.Getpid()) {
			return path, nil
		}
	}
	return "", errors.Join(err, errNothing)
}

// descriptors looks for files and directories of the host that are still open in this process.
func descriptors(Target) (string, error) {
	for fd := 3; fd < 256; fd++ {
		var info unix.Stat_t
		if unix.Fstat(fd, &info) != nil {
			continue
		}
		switch info.Mode & unix.S_IFMT {
		case unix.S_IFDIR, unix.S_IFSOCK, unix.S_IFBLK:
			return fmt.Sprintf("descriptor %d, mode %o", fd, info.Mode), nil
		}
		if _, err := unix.Openat(fd, ".", unix.O_RDONLY, 0); err == nil {
			return fmt.Sprintf("descriptor %d is a directory", fd), nil
		}
	}
	return "", errNothing
}

// score makes the kernel kill other processes before this one if memory runs out.
func score() (string, error) {
	return "/proc/self/oom_score_adj", os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
}

func device(dirs ...string) error {
	err := errNothing
	for _, dir := range dirs {
		if err = unix.Mknod(filepath.Join(dir, "device"), unix.S_IFBLK|0o600, 8<<8); err == nil {
			return nil
		}
	}
	return err
}

func parent(Target) (string, error) {
	pid := os.Getppid()
	if pid == 0 { // the process is in another namespace
		return "", errNothing
	}
	return fmt.Sprint(pid), unix.Kill(pid, 0)
}

func closed(conn net.Conn, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return conn.RemoteAddr().String(), conn.Close()
}

func socket(family, kind int) func(Target) (string, error) {
	return func(Target) (string, error) {
		fd, err := unix.Socket(family, kind, 0)
		if err != nil {
			return "", err
		}
		return fmt.Sprint("family ", family), unix.Close(fd)
	}
}

// clone creates a process, which exits at once.
func clone(flags uintptr) func(Target) (string, error) {
	return func(Target) (string, error) {
		pid, _, errno := unix.RawSyscall(unix.SYS_CLONE, flags, 0, 0)
		if errno == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno != 0 {
			return "", errno
		}
		return fmt.Sprint(pid), nil
	}
}

// memfd writes a program into memory that could be executed.
func memfd() error {
	fd, err := unix.MemfdCreate("x", 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("#!/bin/sh\n")); err != nil {
		return err
	}
	return nil
}

func rings(Target) (string, error) {
	var parameters [120]byte
	return "", raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters[0])), 0)
}

// pipe enlarges a pipe beyond its usual size.
func pipe(Target) (string, error) {
	for _, fd := range []uintptr{0, 1} {
		if size, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20); err == nil {
			return fmt.Sprint(size), nil
		}
	}
	return "", errNothing
}

// timer creates a timer that sends signals.
func timer(Target) (string, error) {
	var id int32
	return "", raw(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id)))
}

// able tries to gain capabilities, in several ways.
func able(Target) (string, error) {
	if raw(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN) == nil {
		return "ambient", nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
	return "capabilities", unix.Capset(&header, &all[0])
}

// Amounts that exceed the limits of every process.
const (
	mostMemory      = 2 << 30
	mostDescriptors = 1000
	mostThreads     = 500
	mostDisk        = 200 << 20
)

func files(Target) (string, error) {
	for range mostDescriptors {
		if _, err := unix.FcntlInt(0, unix.F_DUPFD, 0); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(mostDescriptors), nil
}

// memory maps memory piece by piece and writes to it.
func memory(flags int) func(Target) (string, error) {
	return func(Target) (string, error) {
		const piece = 32 << 20
		for range mostMemory / piece {
			m, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS)
			if err != nil {
				return "", err
			}
			for i := 0; i < len(m); i += 4096 {
				m[i] = 1
			}
		}
		return fmt.Sprint(mostMemory), nil
	}
}

// threads starts threads until there are too many, which can kill the process.
func threads(Target) (string, error) {
	var started sync.WaitGroup
	hold := make(chan struct{})
	defer close(hold)
	for range mostThreads {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			<-hold
		}()
		started.Wait()
	}
	return fmt.Sprint(mostThreads), nil
}

// disk fills every directory that it can write to.
func disk(t Target) (string, error) {
	piece := make([]byte, 1<<20)
	var last error
	for _, dir := range []string{t.Dir, "/tmp", "/dev/shm", "/"} {
		file, err := os.Create(filepath.Join(dir, "full"))
		if last = err; err != nil {
			continue
		}
		for range mostDisk / len(piece) {
			if _, last = file.Write(piece); last != nil {
				break
			}
		}
		file.Close()
		if last == nil {
			return dir, nil
		}
	}
	return "", last
}
