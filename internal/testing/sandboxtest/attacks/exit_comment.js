// A text that comments out what follows it.
// wants: value 1
return 1 /* } */ //
