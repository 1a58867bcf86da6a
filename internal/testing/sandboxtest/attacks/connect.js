// Connections, by what browsers and Node.js have for them.
// wants: value ["undefined","undefined","undefined","undefined","undefined"]
return ['fetch', 'XMLHttpRequest', 'WebSocket', 'EventSource', 'navigator'].map((name) => typeof globalThis[name])
