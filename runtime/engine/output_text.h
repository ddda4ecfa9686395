// SPDX-License-Identifier: Apache-2.0
// Turns tokens into text as they arrive, up to a stop string.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/engine/utf8.h"

namespace sinter::engine {

class OutputText {
 public:
  /// `stops` contains no empty string and must outlive this.
  explicit OutputText(std::span<const std::string> stops) : stops_(stops) {}

  /// Adds a token's bytes and returns the text that is final: whole characters that cannot become
  /// part of a stop string. Add nothing after a stop string.
  std::string add(std::string_view bytes);
  /// The same for whole characters.
  std::string add_characters(std::string_view text);
  /// Whether to search new text for stop strings; initially true.
  void look_for_stops(bool looks) { looks_ = looks; }
  bool has_stopped() const { return has_stopped_; }
  /// Returns the text held back.
  std::string finish();

 private:
  std::string release(bool all);

  std::span<const std::string> stops_;
  Utf8Stream characters_;
  std::string held_;
  bool looks_ = true, has_stopped_ = false;
};

}  // namespace sinter::engine
