package confine

var nativeModeCalls []modeCall

var nativeDenied []uint32
