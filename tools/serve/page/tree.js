// SPDX-License-Identifier: Apache-2.0
// A conversation is a tree: editing or regenerating a message gives it a sibling. Data alone, as it is stored and exported.
const kRoot = '';

export const newId = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');

export function newConversation(model, settings) {
  const now = Date.now();
  return {id: newId(), title: '', model, settings, created: now, updated: now, nodes: {}, children: {}, chosen: {}};
}

/// Adds a message behind `parent` (null: the first), and shows it.
export function add(conversation, parent, message) {
  const node = {...message, id: newId(), parent: parent ?? kRoot, time: Date.now()};
  conversation.nodes[node.id] = node;
  (conversation.children[node.parent] ??= []).push(node.id);
  conversation.chosen[node.parent] = node.id;
  conversation.updated = Date.now();
  return node;
}

/// The messages that are shown, from the first on.
export function pathOf(conversation) {
  const path = [];
  for (let id = conversation.chosen[kRoot]; id; id = conversation.chosen[id]) path.push(conversation.nodes[id]);
  return path;
}

/// From the first message to that one, which may be hidden.
export function pathTo(conversation, id) {
  const path = [];
  for (let node = conversation.nodes[id]; node; node = conversation.nodes[node.parent]) path.unshift(node);
  return path;
}

/// What stands in for one another: {ids, at}.
export function siblingsOf(conversation, node) {
  const ids = conversation.children[node.parent];
  return {ids, at: ids.indexOf(node.id)};
}

export function choose(conversation, id) {
  conversation.chosen[conversation.nodes[id].parent] = id;
}

/// Removes a message with all that follows; a sibling takes its place.
export function remove(conversation, id) {
  const {parent} = conversation.nodes[id];
  const removeBelow = (each) => {
    for (const child of conversation.children[each] ?? []) removeBelow(child);
    delete conversation.children[each];
    delete conversation.chosen[each];
    delete conversation.nodes[each];
  };
  const {ids, at} = siblingsOf(conversation, conversation.nodes[id]);
  removeBelow(id);
  ids.splice(at, 1);
  if (ids.length > 0) conversation.chosen[parent] = ids[Math.min(at, ids.length - 1)];
  else {
    delete conversation.children[parent];
    delete conversation.chosen[parent];
  }
  conversation.updated = Date.now();
}

/// What the API takes of the messages up to `id`.
export function messagesTo(conversation, id, system) {
  const messages = system?.trim() ? [{role: 'system', content: system}] : [];
  for (const node of pathTo(conversation, id)) {
    const message = {role: node.role, content: node.content};
    if (node.images?.length > 0)
      message.content = [...node.images.map((url) => ({type: 'image_url', image_url: {url}})), {type: 'text', text: node.content}];
    if (node.calls?.length > 0) {
      message.tool_calls = node.calls;
      message.content ||= null;
    }
    if (node.role === 'tool') message.tool_call_id = node.callId;
    messages.push(message);
  }
  return messages;
}

/// Of images: kinds that the server reads, and how many a message may have.
export const kImageTypes = ['image/png', 'image/jpeg', 'image/webp'];
export const kMostImages = 64;

/// Whether a value is a list of data URLs that can be sent.
const areImages = (value) => Array.isArray(value) && value.length <= kMostImages
  && value.every((url) => typeof url === 'string' && kImageTypes.some((type) => url.startsWith(`data:${type};base64,`)));

/// Whether an imported value is a conversation that can be shown.
export function isConversation(value) {
  const isMap = (each) => each !== null && typeof each === 'object' && !Array.isArray(each);
  if (!isMap(value) || typeof value.id !== 'string' || !isMap(value.nodes) || !isMap(value.children) || !isMap(value.chosen)) return false;
  const has = (id) => Object.hasOwn(value.nodes, id);
  for (const [id, node] of Object.entries(value.nodes)) {
    if (!isMap(node) || node.id !== id || !['user', 'assistant', 'tool'].includes(node.role) || typeof node.content !== 'string') return false;
    if (node.images !== undefined && !areImages(node.images)) return false;
    if (node.parent !== kRoot && !has(node.parent)) return false;
    if (!value.children[node.parent]?.includes?.(id)) return false;
  }
  for (const [parent, ids] of Object.entries(value.children))
    if (!Array.isArray(ids) || !ids.every((id) => has(id) && value.nodes[id].parent === parent)) return false;
  for (const [parent, id] of Object.entries(value.chosen)) if (!has(id) || value.nodes[id].parent !== parent) return false;
  // Each message must come from the root: no circles.
  return Object.keys(value.nodes).every((id) => {
    let steps = 0;
    for (let at = id; at !== kRoot; at = value.nodes[at].parent) if (++steps > Object.keys(value.nodes).length) return false;
    return true;
  });
}
