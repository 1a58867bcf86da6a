// Package walls contains the parts from which packages jail and confine build their walls: filters of system calls, rules of Landlock, and a separate
// root directory. Packages jail and confine decide which walls a process gets, and what the walls allow. Package walls is for Linux only.
package walls
