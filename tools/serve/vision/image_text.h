// SPDX-License-Identifier: Apache-2.0
// How architectures write images into texts: a table.
#pragma once

#include <string>
#include <string_view>

namespace sinter::tools {

struct ImageTextRow {
  std::string_view model_type;  // of config.json
  std::string_view token_key;   // of config.json: the id of the placeholder, which is the chat
                                // template's marker, too
  /// The text in place of a marker. `piece`: the placeholders of one piece of the image, of which
  /// there are rows x columns tiles, if any, and the whole.
  std::string (*text)(int rows, int columns, const std::string& piece);
};

/// Null if none is known.
const ImageTextRow* find_image_text(std::string_view model_type);
/// All that are known, for messages.
std::string image_text_names();

}  // namespace sinter::tools
