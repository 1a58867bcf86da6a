// The name of a time zone as the path of a file of the host.
// wants: value 0
let got = 0
for (const timeZone of ['../../../../../../etc/passwd', '$FILE', '/etc/passwd', '..', '.', '', 'Europe/../Europe/Berlin', 'posix/../../../../etc/hosts', 'Europe\\Berlin', 'Europe/Berlin\0']) {
  try { new Intl.DateTimeFormat('en', { timeZone }).format(new Date()); got++ } catch {}
  try { new Date().toLocaleString('en', { timeZone }); got++ } catch {}
}
return got
