// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/tool_calls/tool_call_stream.h"

#include <algorithm>

namespace sinter::tools {
namespace {

constexpr std::string_view kAround = " \t\r\n";
constexpr std::string_view kBetween = " \t\r\n;,";  // of calls without an opener

std::size_t trimmed(std::string_view text) { return text.find_last_not_of(kAround) + 1; }

}  // namespace

/// How much of `text` is in front of white space, and of what may become an opener, at its end.
std::size_t ToolCallSplitter::certain(std::string_view text) const {
  std::size_t held = 0;
  for (const std::string_view opener : form_->openers)
    for (std::size_t length = std::min(text.size(), opener.size() - 1); length > held; --length)
      if (text.ends_with(opener.substr(0, length))) held = length;
  text.remove_suffix(held);
  return trimmed(text);
}

ToolCallSplitter::Opener ToolCallSplitter::opener_in(std::string_view text) const {
  Opener first;
  for (const std::string_view opener : form_->openers)
    if (const std::size_t place = text.find(opener); place < first.place)
      first = {place, opener.size()};
  if (form_->start == 0 || has_text_) return first;
  const std::size_t start = text.find_first_not_of(has_calls_ ? kBetween : kAround);
  if (start < first.place && text[start] == form_->start) return {start, 0};
  return first;
}

void ToolCallSplitter::split(Piece& piece, bool is_over) {
  std::size_t at = 0;  // all in front is in the piece
  const auto say = [&](std::string_view text) {
    piece.text += text;
    has_text_ = has_text_ || text.find_first_not_of(kAround) != std::string_view::npos;
  };
  while (true) {
    const std::string_view rest = std::string_view(held_).substr(at);
    const Opener opener = opener_in(rest);
    if (opener.place == std::string_view::npos) {
      // Behind calls what divides them may come before another one.
      const bool may_open = form_->start != 0 && has_calls_ && !has_text_ &&
                            rest.find_first_not_of(kBetween) == std::string_view::npos;
      const std::size_t count = may_open ? 0 : certain(rest);
      say(rest.substr(0, count));
      at += count;
      break;
    }
    const std::size_t inner = opener.place + opener.length;
    ToolBlock block = form_->read(rest.substr(inner), is_over);
    if (block.state == ToolBlock::State::kOpen) {
      const std::size_t count = opener.length == 0 ? 0 : trimmed(rest.substr(0, opener.place));
      say(rest.substr(0, count));
      at += count;
      break;
    }
    if (block.state == ToolBlock::State::kCalls) {
      if (opener.length > 0) say(rest.substr(0, trimmed(rest.substr(0, opener.place))));
      std::ranges::move(block.calls, std::back_inserter(piece.calls));
      has_calls_ = true;
      at += inner + block.length;
    } else {
      // One character at least, so that it goes on.
      const std::size_t count = std::max(inner + block.length, opener.place + 1);
      say(rest.substr(0, std::min(count, rest.size())));
      at += std::min(count, rest.size());
    }
  }
  held_.erase(0, at);
}

ToolCallSplitter::Piece ToolCallSplitter::add(std::string_view text) {
  held_ += text;
  Piece piece;
  split(piece, false);
  return piece;
}

ToolCallSplitter::Piece ToolCallSplitter::finish() {
  Piece piece;
  split(piece, true);
  const bool is_space = held_.find_first_not_of(kAround) == std::string::npos;
  if (!has_calls_ || !is_space) piece.text += held_;
  held_.clear();
  return piece;
}

}  // namespace sinter::tools
