// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/post_processors.h"

#include <algorithm>

namespace sinter::tools {
namespace {

TokenId id_of(const Fields::Json& value, const std::string& what) {
  constexpr TokenId kMost = TokenId{1} << 31;
  if (!value.is_number_integer() || value.get<TokenId>() < 0 || value.get<TokenId>() >= kMost)
    throw usage_error("not a tokenizer.json: {} has the token id {}", what, value.dump());
  return value.get<TokenId>();
}

/// BertProcessing and RobertaProcessing: tokens around the first text and around later ones.
class Around : public PostProcessor {
 public:
  Around(TokenId before, TokenId behind, bool separates_twice)
      : before_(before), behind_(behind), separates_twice_(separates_twice) {}
  Encodings apply(Encodings encodings, bool adds_special) const override {
    if (!adds_special) return encodings;
    for (std::size_t i = 0; i < encodings.size(); ++i) {
      auto& ids = encodings[i];
      if (i == 0)
        ids.insert(ids.begin(), before_);
      else if (separates_twice_)
        ids.insert(ids.begin(), behind_);
      ids.push_back(behind_);
    }
    return encodings;
  }
  std::size_t count(bool is_pair) const override {
    if (!is_pair) return 2;
    return separates_twice_ ? 4 : 3;
  }

 private:
  TokenId before_, behind_;
  bool separates_twice_;
};

class Template : public PostProcessor {
 public:
  explicit Template(Fields& fields)
      : what_(fields.what()), single_(read(fields, "single")), pair_(read(fields, "pair")) {
    fields.skip({"special_tokens"});
    for (const Part& part : single_)
      if (part.text == 1)
        throw usage_error("tokenizer: {} has the second text in the template of one", what_);
  }
  Encodings apply(Encodings encodings, bool adds_special) const override {
    if (encodings.size() != 1 && encodings.size() != 2)
      unsupported_part(
          fmt::format("{} behind one that makes {} parts of a text", what_, encodings.size()));
    Encodings result;
    for (const Part& part : encodings.size() == 1 ? single_ : pair_) {
      if (part.text >= 0)
        result.push_back(encodings[static_cast<std::size_t>(part.text)]);
      else if (adds_special)
        result.push_back(part.ids);
    }
    return result;
  }
  std::size_t count(bool is_pair) const override {
    std::size_t all = 0;
    for (const Part& part : is_pair ? pair_ : single_) all += part.ids.size();
    return all;
  }

 private:
  struct Part {
    int text;                  // 0 or 1; -1: a special token
    std::vector<TokenId> ids;  // for a special token
  };

  static std::vector<Part> read(Fields& fields, const char* key) {
    // Limits for a template, which multiplies ids.
    constexpr int kMostTexts = 16;
    constexpr std::size_t kMostIds = 1U << 16;
    std::vector<Part> result;
    int texts = 0;
    std::size_t count = 0;
    for (const Fields::Json& piece : fields.at(key)) {
      const std::string what = fmt::format("a piece of '{}' of {}", key, fields.what());
      Fields outer(piece, what);
      if (const Fields::Json* sequence = outer.find("Sequence")) {
        Fields inner(*sequence, what);
        const auto id = inner.get<std::string>("id");
        if (id != "A" && id != "B") unsupported_part(fmt::format("the text '{}' in {}", id, what));
        if (++texts > kMostTexts)
          unsupported_part(fmt::format("'{}' of more than {} texts", key, kMostTexts));
        result.push_back({id == "A" ? 0 : 1, {}});
        inner.skip({"type_id"});
        inner.finish();
      } else {
        Fields inner(outer.at("SpecialToken"), what);
        const auto name = inner.get<std::string>("id");
        Fields tokens(fields.at("special_tokens"), "special_tokens of " + fields.what());
        Fields token(tokens.at(name.c_str()), fmt::format("the token '{}'", name));
        Part part = {-1, {}};
        for (const Fields::Json& id : token.at("ids")) {
          if (++count > kMostIds)
            unsupported_part(fmt::format("'{}' of more than {} ids", key, kMostIds));
          part.ids.push_back(id_of(id, what));
        }
        result.push_back(std::move(part));
        token.skip({"id", "tokens"});
        token.finish();
        inner.skip({"type_id"});
        inner.finish();
      }
      outer.finish();
    }
    return result;
  }

  std::string what_;
  std::vector<Part> single_, pair_;
};

}  // namespace

void PostProcessors::read(const Fields::Json* part) {
  for (const Fields::Json* each : parts_of(part, "post-processor", "processors")) {
    const std::string type = type_of(*each);
    Fields fields(*each, fmt::format("the post-processor '{}'", type));
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      const auto id = [&](const char* key) {
        const Fields::Json& pair = fields.at(key);
        if (!pair.is_array() || pair.size() != 2)
          throw usage_error("not a tokenizer.json: {}: {} is no pair", fields.what(), key);
        return id_of(pair[1], fields.what());
      };
      const TokenId before = id("cls"), behind = id("sep");
      parts_.push_back(std::make_unique<Around>(before, behind, type == "RobertaProcessing"));
      fields.skip({"trim_offsets", "add_prefix_space"});
    } else if (type == "TemplateProcessing") {
      parts_.push_back(std::make_unique<Template>(fields));
    } else if (type == "ByteLevel") {
      fields.skip({"add_prefix_space", "trim_offsets", "use_regex"});  // affect offsets, not ids
    } else {
      unsupported_part(fields.what());
    }
    fields.finish();
  }
  apply({{}}, true);  // refuses inconsistent templates
}

std::vector<TokenId> PostProcessors::apply(Encodings encodings, bool adds_special) const {
  for (const auto& part : parts_) encodings = part->apply(std::move(encodings), adds_special);
  if (encodings.size() == 1) return std::move(encodings.front());
  std::vector<TokenId> ids;
  for (const auto& each : encodings) ids.insert(ids.end(), each.begin(), each.end());
  return ids;
}

std::size_t PostProcessors::count(bool is_pair) const {
  std::size_t all = 0;
  for (const auto& part : parts_) all += part->count(is_pair);
  return all;
}

}  // namespace sinter::tools
