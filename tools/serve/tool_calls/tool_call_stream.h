// SPDX-License-Identifier: Apache-2.0
// Calls of tools in the text of a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/tool_calls/tool_form.h"

namespace sinter::tools {

/// Splits a text, as it comes, into what is said and calls of tools. What only looks like a call,
/// or does not end, is text. White space around calls is dropped.
class ToolCallSplitter {
 public:
  struct Piece {
    std::string text;
    std::vector<ToolCall> calls;
  };

  explicit ToolCallSplitter(const ToolForm& form) : form_(&form) {}

  /// What is certain by now: a call is given when it has ended.
  Piece add(std::string_view text);
  /// The rest.
  Piece finish();

 private:
  /// Where the next block begins, and how long its opener is.
  struct Opener {
    std::size_t place = std::string_view::npos, length = 0;
  };
  Opener opener_in(std::string_view text) const;
  std::size_t certain(std::string_view text) const;
  void split(Piece& piece, bool is_over);

  const ToolForm* form_;
  std::string held_;
  bool has_text_ = false, has_calls_ = false;
};

}  // namespace sinter::tools
