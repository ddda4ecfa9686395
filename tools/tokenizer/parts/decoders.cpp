// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/decoders.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/engine/utf8.h"
#include "tools/tokenizer/parts/byte_alphabet.h"
#include "tools/tokenizer/parts/normalizers.h"
#include "tools/tokenizer/parts/passage.h"
#include "tools/tokenizer/parts/pre_tokenizers.h"
#include "tools/tokenizer/unicode/unicode.h"

namespace sinter::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  while (!text.empty()) {
    const std::size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) break;
    result += to;
    text.remove_prefix(at + from.size());
  }
  return result;
}

/// A sink that receives whole tokens.
class WholeTokens : public TokenSink {
 public:
  explicit WholeTokens(TokenSink& next) : next_(next) {}
  void add(std::string_view part) final { token_ += part; }
  void end_token() final { take(std::exchange(token_, {})); }
  void finish() override { next_.finish(); }

 protected:
  virtual void take(std::string token) = 0;
  void give(std::string_view token) {
    next_.add(token);
    next_.end_token();
  }
  TokenSink& next_;

 private:
  std::string token_;
};

/// A decoder that maps tokens independently: `Part` has `std::string map(std::string, bool
/// is_first)`.
template <typename Part>
class EachToken : public TokenDecoder {
 public:
  explicit EachToken(Part part) : part_(std::move(part)) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : WholeTokens {
      Sink(const Part& part_, TokenSink& next) : WholeTokens(next), part(part_) {}
      void take(std::string token) override {
        give(part.map(std::move(token), std::exchange(is_first, false)));
      }
      const Part& part;
      bool is_first = true;
    };
    return std::make_unique<Sink>(part_, next);
  }
  std::string middle(std::string token) const override {
    return part_.map(std::move(token), false);
  }

 private:
  Part part_;
};

/// Removes the space before English punctuation that joining words inserts.
std::string cleaned_up(std::string text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules)
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  return text;
}

struct WordPiecePart {
  std::string prefix;
  bool cleans_up;
  std::string map(std::string token, bool is_first) const {
    if (!is_first && token.starts_with(prefix))
      token.erase(0, prefix.size());
    else if (!is_first)
      token.insert(0, 1, ' ');
    return cleans_up ? cleaned_up(std::move(token)) : token;
  }
};

/// Without a decoder the library joins tokens with spaces.
struct BlanksPart {
  std::string map(std::string token, bool is_first) const {
    if (!is_first) token.insert(0, 1, ' ');
    return token;
  }
};

struct ReplacePart {
  TextPattern pattern;
  std::string content;
  std::string map(std::string token, bool /*is_first*/) const {
    if (token.empty()) return token;
    std::string result;
    std::size_t done = 0;
    pattern.for_each_match(token, [&](std::size_t begin, std::size_t end) {
      result.append(token, done, begin - done);
      result += content;
      require_text_size(result.size());
      done = end;
    });
    return result.append(token, done);
  }
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const Metaspace& metaspace)
      : blank_(metaspace.blank), drops_first_(metaspace.prefix != Metaspace::Prefix::kNever) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : TokenSink {
      Sink(const MetaspaceDecoder& part_, TokenSink& next_) : part(part_), next(next_) {}
      void add(std::string_view text) override {
        next.add(replaced(text, part.blank_, is_first && part.drops_first_ ? "" : " "));
      }
      void end_token() override {
        is_first = false;
        next.end_token();
      }
      void finish() override { next.finish(); }
      const MetaspaceDecoder& part;
      TokenSink& next;
      bool is_first = true;
    };
    return std::make_unique<Sink>(*this, next);
  }
  std::string middle(std::string token) const override { return replaced(token, blank_, " "); }

 private:
  std::string blank_;
  bool drops_first_;
};

class FuseDecoder : public TokenDecoder {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : TokenSink {
      explicit Sink(TokenSink& next_) : next(next_) {}
      void add(std::string_view text) override { next.add(text); }
      void end_token() override {}
      void finish() override {
        next.end_token();
        next.finish();
      }
      TokenSink& next;
    };
    return std::make_unique<Sink>(next);
  }
  std::string middle(std::string token) const override { return token; }
  bool fuses() const override { return true; }
};

class ByteLevelDecoder : public TokenDecoder {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : WholeTokens {
      using WholeTokens::WholeTokens;
      void take(std::string token) override {
        next_.add(characters.add(bytes_of_characters(token)));
      }
      void finish() override {
        next_.add(characters.finish());
        next_.end_token();
        next_.finish();
      }
      engine::Utf8Stream characters;
    };
    return std::make_unique<Sink>(next);
  }
  std::string middle(std::string token) const override { return bytes_of_characters(token); }
  bool fuses() const override { return true; }
};

/// The byte named by a token such as <0x0A>.
std::optional<char> named_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  int value = 0;
  for (std::size_t i = 3; i < 5; ++i) {
    const char c = token[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    // Rust's from_str_radix accepts a sign.
    if (digit < 0 && !(i == 3 && c == '+')) return std::nullopt;
    value = value * 16 + std::max(digit, 0);
  }
  return static_cast<char>(value);
}

/// A run of byte tokens is text, or U+FFFD for each token if the run is not valid UTF-8; so it is
/// decoded only at its end.
class ByteFallbackDecoder : public TokenDecoder {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : WholeTokens {
      using WholeTokens::WholeTokens;
      void take(std::string token) override {
        if (const auto byte = named_byte(token)) {
          run += *byte;
          return;
        }
        end_run();
        give(token);
      }
      void finish() override {
        end_run();
        next_.finish();
      }
      void end_run() {
        if (engine::repaired_utf8(run) == run) {
          if (!run.empty()) give(run);
        } else {
          for (std::size_t i = 0; i < run.size(); ++i) give(kReplacement);
        }
        run.clear();
      }
      std::string run;
    };
    return std::make_unique<Sink>(next);
  }
  std::string middle(std::string token) const override {
    if (const auto byte = named_byte(token)) return {*byte};
    return token;
  }
};

/// Strips up to `start` characters at a token's beginning, and up to `stop` at its end.
class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : TokenSink {
      Sink(const StripDecoder& part_, TokenSink& next_) : part(part_), next(next_) {}
      void add(std::string_view text) override {
        const std::string& content = part.content_;
        while (is_in_front && dropped < part.start_ && text.starts_with(content)) {
          text.remove_prefix(content.size());
          ++dropped;
        }
        if (text.empty()) return;
        is_in_front = false;
        std::size_t behind = 0;
        std::string_view kept = text;
        while (kept.ends_with(content)) {
          kept.remove_suffix(content.size());
          ++behind;
        }
        if (kept.empty()) {
          held += behind;
        } else {
          release(held);
          next.add(kept);
          held = behind;
        }
        if (held > part.stop_) release(held - part.stop_);
      }
      void end_token() override {
        held = 0;  // at most stop_
        dropped = 0;
        is_in_front = true;
        next.end_token();
      }
      void finish() override { next.finish(); }
      void release(std::size_t count) {
        held -= count;
        std::string text;
        for (; count > 0; --count) text += part.content_;
        next.add(text);
      }
      const StripDecoder& part;
      TokenSink& next;
      bool is_in_front = true;
      std::size_t dropped = 0, held = 0;
    };
    return std::make_unique<Sink>(*this, next);
  }
  std::string middle(std::string token) const override {
    for (std::size_t i = 0; i < start_ && token.starts_with(content_); ++i)
      token.erase(0, content_.size());
    for (std::size_t i = 0; i < stop_ && token.ends_with(content_); ++i)
      token.resize(token.size() - content_.size());
    return token;
  }

 private:
  std::string content_;
  std::size_t start_, stop_;
};

/// Replaces the end-of-word suffix by a space, except at the last token.
class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : WholeTokens {
      Sink(const BpeDecoder& part_, TokenSink& next) : WholeTokens(next), part(part_) {}
      void take(std::string token) override {
        if (last) give(part.replace(*last, " "));
        last = std::move(token);
      }
      void finish() override {
        if (last) give(part.replace(*last, ""));
        next_.finish();
      }
      const BpeDecoder& part;
      std::optional<std::string> last;
    };
    return std::make_unique<Sink>(*this, next);
  }
  std::string middle(std::string token) const override { return replace(token, " "); }

 private:
  /// For an empty suffix, as Rust's str::replace: inserts around each character.
  std::string replace(std::string_view token, std::string_view to) const {
    if (!suffix_.empty()) return replaced(token, suffix_, to);
    std::string result(to);
    for (std::size_t at = 0; at < token.size();) {
      const std::size_t begin = at;
      unicode::next_character(token, at);
      result += token.substr(begin, at - begin);
      result += to;
    }
    return result;
  }

  std::string suffix_;
};

/// Keeps the first of consecutive equal tokens, and drops padding.
class CtcDecoder : public TokenDecoder {
 public:
  CtcDecoder(std::string pad, std::string delimiter, bool cleans_up)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleans_up_(cleans_up) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override {
    struct Sink : WholeTokens {
      Sink(const CtcDecoder& part_, TokenSink& next) : WholeTokens(next), part(part_) {}
      void take(std::string token) override {
        if (last && *last == token) return;
        if (const std::string text = part.middle(token); !text.empty()) give(text);
        last = std::move(token);
      }
      const CtcDecoder& part;
      std::optional<std::string> last;
    };
    return std::make_unique<Sink>(*this, next);
  }
  std::string middle(std::string token) const override {
    if (!pad_.empty()) token = replaced(token, pad_, "");
    if (!cleans_up_) return token;
    token = cleaned_up(std::move(token));
    return delimiter_.empty() ? token : replaced(token, delimiter_, " ");
  }

 private:
  std::string pad_, delimiter_;
  bool cleans_up_;
};

template <typename Part>
std::unique_ptr<const TokenDecoder> each(Part part) {
  return std::make_unique<EachToken<Part>>(std::move(part));
}

std::unique_ptr<const TokenDecoder> decoder_of(const std::string& type, Fields& fields) {
  if (type == "BPEDecoder")
    return std::make_unique<BpeDecoder>(fields.get<std::string>("suffix", "</w>"));
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "ByteLevel") {
    fields.skip({"add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<ByteLevelDecoder>();
  }
  if (type == "CTC") {
    auto pad = fields.get<std::string>("pad_token", "<pad>");
    auto delimiter = fields.get<std::string>("word_delimiter_token", "|");
    return std::make_unique<CtcDecoder>(std::move(pad), std::move(delimiter),
                                        fields.get("cleanup", true));
  }
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(Metaspace::read(fields));
  if (type == "Replace") {
    TextPattern pattern = pattern_of(fields);
    return each(ReplacePart{std::move(pattern), fields.get<std::string>("content")});
  }
  if (type == "Strip") {
    auto content = fields.character("content");
    const auto count = [&](const char* key) {
      const auto value = fields.get<std::int64_t>(key, 0);
      if (value < 0) throw usage_error("tokenizer: {} of {} is {}", key, fields.what(), value);
      return static_cast<std::size_t>(value);
    };
    const std::size_t start = count("start"), stop = count("stop");
    return std::make_unique<StripDecoder>(std::move(content), start, stop);
  }
  if (type == "WordPiece") {
    auto prefix = fields.get<std::string>("prefix", "##");
    return each(WordPiecePart{std::move(prefix), fields.get("cleanup", true)});
  }
  unsupported_part(fields.what());
}

}  // namespace

void TokenDecoders::read(const Fields::Json* part) {
  for (const Fields::Json* each_part : parts_of(part, "decoder", "decoders")) {
    const std::string type = type_of(*each_part);
    Fields fields(*each_part, fmt::format("the decoder '{}'", type));
    parts_.push_back(decoder_of(type, fields));
    fields.finish();
  }
  if (part == nullptr) parts_.push_back(each(BlanksPart()));
}

std::string TokenDecoders::middle(std::string token) const {
  for (const auto& part : parts_) {
    token = part->middle(std::move(token));
    // Later parts apply to the whole text, in which this token is somewhere inside.
    if (part->fuses()) break;
  }
  return token;
}

TextOfTokens::TextOfTokens(const TokenDecoders& decoders) {
  TokenSink* next = text_.get();
  for (auto part = decoders.parts().rbegin(); part != decoders.parts().rend(); ++part) {
    stages_.push_back((*part)->start(*next));
    next = stages_.back().get();
  }
}

std::string TextOfTokens::add(std::string_view token) {
  TokenSink& first = stages_.empty() ? *text_ : *stages_.back();
  first.add(token);
  first.end_token();
  return std::exchange(text_->text, {});
}

std::string TextOfTokens::finish() {
  (stages_.empty() ? *text_ : *stages_.back()).finish();
  return std::exchange(text_->text, {});
}

}  // namespace sinter::tools
