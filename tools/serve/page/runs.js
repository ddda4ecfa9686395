// SPDX-License-Identifier: Apache-2.0
// Answers that are being generated. Each goes on while another conversation is looked at.
import {stream} from './api.js';
import {modelOf} from './models.js';
import {requestFields} from './settings.js';
import {add, messagesTo} from './tree.js';
import {save} from './store.js';
import {toast, speak} from './dom.js';

const kSaveEvery = 2000;
const running = new Map();  // by conversation
export const runs = new EventTarget();

export const runOf = (conversation) => running.get(conversation?.id) ?? null;
/// The conversation as it is, not as it was last stored.
export const runningConversation = (id) => running.get(id)?.conversation ?? null;

class Run {
  constructor(conversation, node) {
    this.conversation = conversation;
    this.node = node;
    this.controller = new AbortController();
    this.listener = null;  // {add(text, entries), calls(), end()}
  }
  stop() { this.controller.abort(); }
}

function addCalls(node, pieces) {
  for (const piece of pieces) {
    const call = (node.calls ??= [])[piece.index] ??= {id: piece.id, type: 'function', function: {name: '', arguments: ''}};
    call.id = piece.id ?? call.id;
    call.function.name += piece.function?.name ?? '';
    call.function.arguments += piece.function?.arguments ?? '';
  }
}

/// Answers the message `parent`. The new message, whose text comes by the listener of runOf().
export function answer(conversation, parent, model, settings) {
  const body = {model, messages: messagesTo(conversation, parent, settings.system), stream: true, stream_options: {include_usage: true},
                return_token_ids: true, ...requestFields(settings, true)};
  const node = add(conversation, parent, {role: 'assistant', content: '', model});
  const run = new Run(conversation, node);
  running.set(conversation.id, run);
  generate(run, body);
  return node;
}

async function generate(run, body) {
  const {node, conversation} = run;
  const began = performance.now();
  let first = 0, saved = began;
  node.tokens = 0;
  runs.dispatchEvent(new Event('changed'));
  try {
    for await (const event of stream('v1/chat/completions', body, run.controller.signal)) {
      if (event.usage) node.promptTokens = event.usage.prompt_tokens;
      const choice = event.choices?.[0];
      if (!choice) continue;
      node.tokens += choice.token_ids?.length ?? 1;
      const now = performance.now();
      if (node.tokens > 0) first ||= now - began;
      node.firstMs = first;
      node.seconds = (now - began - first) / 1000;
      const text = choice.delta?.content ?? '';
      const entries = choice.logprobs?.content ?? [];
      node.content += text;
      if (entries.length > 0) (node.logprobs ??= []).push(...entries);
      run.listener?.add(text, entries);
      if (choice.delta?.tool_calls) {
        addCalls(node, choice.delta.tool_calls);
        run.listener?.calls();
      }
      node.finish = choice.finish_reason ?? node.finish;
      if (now - saved > kSaveEvery) {
        saved = now;
        save(conversation).catch(() => {});
      }
    }
  } catch (error) {
    if (error.name === 'AbortError') node.finish = 'stopped';
    else node.error = error.message;
  }
  node.finish ??= 'broken off';
  running.delete(conversation.id);
  conversation.updated = Date.now();
  save(conversation).catch((error) => toast(error.message, true));
  run.listener?.end();
  speak(node.error ? `Error: ${node.error}` : `The answer is complete: ${node.tokens} tokens`);
  runs.dispatchEvent(new Event('changed'));
}

/// Whether the conversation's model can go on with it.
export const canAnswer = (conversation) => modelOf(conversation.model)?.tasks?.includes('chat') ?? false;

addEventListener('pagehide', () => {
  for (const {conversation} of running.values()) save(conversation).catch(() => {});
});
