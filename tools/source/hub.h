// SPDX-License-Identifier: Apache-2.0
// Names of the Hugging Face hub, in the cache that its Python package `huggingface_hub` keeps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sinter::tools {

struct HubOptions {
  std::string revision;   // branch, tag or commit; empty: main
  bool download = false;  // by huggingface_hub, what is missing
};

/// "org/name", or "org/name/FILE" for one file of that model.
struct HubName {
  std::string repository;  // "org/name"
  std::string file;        // relative; empty: the whole model

  /// Nothing if `text` is no such name: a path that exists, or begins as a path does.
  static std::optional<HubName> parse(const std::string& text);
};

/// The folder of the cache: $HF_HUB_CACHE, else hub in $HF_HOME, $XDG_CACHE_HOME/huggingface or
/// ~/.cache/huggingface.
std::string hub_cache();

/// Path of the model's snapshot in the cache, or of its file. Downloads nothing unless asked to;
/// `note` gets a line before. Throws Error(kUsage) that says what to do if it is not there.
std::string find_in_hub(const HubName& name, const HubOptions& options,
                        const std::function<void(std::string_view)>& note);

}  // namespace sinter::tools
