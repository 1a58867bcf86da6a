// Connections, by what browsers and Node.js have for them; fetch is a call that the gate judges.
// wants: value ["undefined","undefined","undefined","undefined"]
return ['XMLHttpRequest', 'WebSocket', 'EventSource', 'navigator'].map((name) => typeof globalThis[name])
