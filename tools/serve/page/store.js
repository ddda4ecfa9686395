// SPDX-License-Identifier: Apache-2.0
// Conversations in the browser (IndexedDB), of this server's page alone. Without it they last until the page is left.
const kStore = 'conversations';
const memory = new Map();

const opened = new Promise((resolve) => {
  try {
    const request = indexedDB.open(`sinter:${location.pathname}`, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(kStore, {keyPath: 'id'});
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  } catch { resolve(null); }
});

async function inStore(mode, use) {
  const database = await opened;
  if (database === null) return undefined;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(kStore, mode);
    const request = use(transaction.objectStore(kStore));
    transaction.oncomplete = () => resolve(request?.result);
    transaction.onerror = transaction.onabort = () => reject(new Error(`the history cannot be written: ${transaction.error?.message}`));
  });
}

export async function loadAll() {
  return (await inStore('readonly', (store) => store.getAll())) ?? [...memory.values()];
}
export async function save(conversation) {
  memory.set(conversation.id, conversation);
  // The database copies it; what is being generated goes on in ours.
  await inStore('readwrite', (store) => store.put(conversation));
}
export async function forget(id) {
  memory.delete(id);
  await inStore('readwrite', (store) => store.delete(id));
}
export async function forgetAll() {
  memory.clear();
  await inStore('readwrite', (store) => store.clear());
}

/// Small things: choices of the page. `read(name, otherwise)`, `write(name, value)`.
export function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`sinter.${name}`)) ?? otherwise;
  } catch { return otherwise; }
}
export function write(name, value) {
  try {
    localStorage.setItem(`sinter.${name}`, JSON.stringify(value));
  } catch { /* it lasts until the page is left */ }
}
