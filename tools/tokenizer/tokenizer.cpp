// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>

#include "runtime/engine/utf8.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/tokenizer/tokenizer_data.h"

namespace sinter::tools {
namespace {

/// Splits `text` into pieces: added tokens, and parts from the pre-tokenizers.
Passage pieces_of(const TokenizerData& data, std::string_view text) {
  if (engine::repaired_utf8(text) != text) throw usage_error("the text is not UTF-8");
  require_text_size(text.size());
  const bool tracks = data.pre_tokenizers.needs_origins();
  Passage passage(tracks);
  data.added.find_all(text, false, [&](std::size_t begin, std::size_t end, auto token) {
    if (token) return passage.add_token(*token);
    Fragment fragment;
    fragment.begin = static_cast<Origin>(begin);
    fragment.text = text.substr(begin, end - begin);
    if (tracks) {
      fragment.origins.resize(fragment.text.size());
      Origin origin = fragment.begin;
      for (std::size_t i = 0; i < fragment.text.size(); ++i) {
        // All bytes of a character have the origin of its first.
        if ((fragment.text[i] & 0xC0) != 0x80) origin = static_cast<Origin>(begin + i);
        fragment.origins[i] = origin;
      }
    }
    data.normalizers.apply(fragment);
    data.added.find_all(fragment.text, true, [&](std::size_t from, std::size_t to, auto found) {
      if (found)
        passage.add_token(*found);
      else
        passage.add_text(fragment, from, to);
    });
  });
  data.pre_tokenizers.apply(passage);
  return passage;
}

struct Encoded {
  std::vector<TokenId> ids;
  bool is_whole = true;
};

/// The ids of one text without special tokens, from its beginning or its end; stops after the first
/// piece that exceeds `most` ids.
Encoded encode_one(const TokenizerData& data, std::string_view text, std::size_t most,
                   bool from_left) {
  const Passage passage = pieces_of(data, text);
  const auto& pieces = passage.pieces();
  Encoded result;
  const auto encode = [&](const Piece& piece, std::vector<TokenId>& ids) {
    if (piece.token != Piece::kText)
      ids.push_back(piece.token);
    else
      data.model->encode(passage.text_of(piece), ids);
  };
  if (!from_left) {
    for (const Piece& piece : pieces) {
      if (result.ids.size() > most) break;
      encode(piece, result.ids);
    }
  } else {
    std::vector<TokenId> reversed, ids;
    for (auto piece = pieces.rbegin(); piece != pieces.rend() && reversed.size() <= most; ++piece) {
      ids.clear();
      encode(*piece, ids);
      reversed.insert(reversed.end(), ids.rbegin(), ids.rend());
    }
    result.ids.assign(reversed.rbegin(), reversed.rend());
  }
  result.is_whole = result.ids.size() <= most;
  return result;
}

void require(bool is_whole, std::size_t most) {
  if (!is_whole)
    throw usage_error("the text has more than {} tokens, as many as the model takes", most);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<TokenizerData> data) : data_(std::move(data)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::string& path) {
  const std::string text = files::read_file(path, "tokenizer file");
  return with_context(path, [&] { return parse(text); });
}

Tokenizer Tokenizer::parse(std::string_view json) { return Tokenizer(read_tokenizer(json)); }

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool add_special,
                                            std::size_t most) const {
  Encoded encoded = encode_one(*data_, text, most, false);
  require(encoded.is_whole, most);
  auto ids = data_->post_processors.apply({std::move(encoded.ids)}, add_special);
  require(ids.size() <= most, most);
  return ids;
}

std::vector<std::int64_t> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                                 bool add_special) const {
  return data_->post_processors.apply({encode_one(*data_, first, kAnyNumber, false).ids,
                                       encode_one(*data_, second, kAnyNumber, false).ids},
                                      add_special);
}

Tokenizer::Pair Tokenizer::encode_pair_cut(std::string_view first, std::string_view second) const {
  std::array texts = {encode_one(*data_, first, kAnyNumber, false).ids,
                      encode_one(*data_, second, kAnyNumber, false).ids};
  Pair result;
  if (const auto& truncation = data_->truncation) {
    const std::size_t around = data_->post_processors.count(true);
    const std::size_t room = truncation->tokens - std::min(truncation->tokens, around);
    std::array kept = {texts[0].size(), texts[1].size()};
    if (truncation->only_second) {
      if (kept[0] > room)
        throw usage_error(
            "the first text has more than {} tokens, and the tokenizer cuts second "
            "texts alone",
            room);
      kept[1] = std::min(kept[1], room - kept[0]);
    } else if (kept[0] + kept[1] > room) {
      // The longer text is cut first: to the shorter one's length, or each to half of the room.
      const std::size_t shorter = kept[0] > kept[1] ? 1 : 0, longer = 1 - shorter;
      kept[longer] =
          kept[shorter] > room ? kept[shorter] : std::max(kept[shorter], room - kept[shorter]);
      if (kept[shorter] + kept[longer] > room) {
        kept[shorter] = room / 2;
        kept[longer] = kept[shorter] + room % 2;
      }
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].size() <= kept[i]) continue;
      result.is_cut = true;
      const auto extra = static_cast<std::ptrdiff_t>(texts[i].size() - kept[i]);
      if (truncation->from_left)
        texts[i].erase(texts[i].begin(), texts[i].begin() + extra);
      else
        texts[i].resize(kept[i]);
    }
  }
  // The first text of a pair has the same special tokens as a single text.
  const auto single = data_->post_processors.apply({texts[0]}, true);
  result.ids = data_->post_processors.apply({std::move(texts[0]), std::move(texts[1])}, true);
  result.second =
      static_cast<std::size_t>(std::ranges::mismatch(single, result.ids).in1 - single.begin());
  return result;
}

Tokenizer::Cut Tokenizer::encode_cut(std::string_view text, bool add_special,
                                     std::size_t most) const {
  const auto& truncation = data_->truncation;
  if (!truncation) return {encode(text, add_special, most), false};
  const std::size_t room =
      truncation->tokens - (add_special ? data_->post_processors.count(false) : 0);
  Encoded encoded = encode_one(*data_, text, std::min(room, most), truncation->from_left);
  if (encoded.ids.size() > room && truncation->only_second)
    throw usage_error("the text has more than {} tokens, and the tokenizer cuts second texts alone",
                      room);
  Cut result;
  result.is_cut = encoded.ids.size() > room;
  if (result.is_cut) {
    const auto extra = static_cast<std::ptrdiff_t>(encoded.ids.size() - room);
    if (truncation->from_left)
      encoded.ids.erase(encoded.ids.begin(), encoded.ids.begin() + extra);
    else
      encoded.ids.resize(room);
  }
  result.ids = data_->post_processors.apply({std::move(encoded.ids)}, add_special);
  require(result.ids.size() <= most, most);
  return result;
}

void Tokenizer::pad(std::vector<std::int64_t>& ids) const {
  const auto& padding = data_->padding;
  if (!padding) return;
  std::size_t size = std::max(ids.size(), padding->tokens);
  if (padding->multiple > 0)
    size += (padding->multiple - size % padding->multiple) % padding->multiple;
  ids.insert(padding->from_left ? ids.begin() : ids.end(), size - ids.size(), padding->id);
}

void Tokenizer::truncate(std::size_t tokens) {
  if (tokens < data_->post_processors.count(true))
    throw usage_error("texts of {} tokens have no room for the special ones", tokens);
  if (!data_->truncation) data_->truncation.emplace();
  data_->truncation->tokens = tokens;
}

const std::optional<Truncation>& Tokenizer::truncation() const { return data_->truncation; }
const std::optional<Padding>& Tokenizer::padding() const { return data_->padding; }

struct Tokenizer::Stream::State {
  const TokenizerData& data;
  bool skips_special;
  TextOfTokens text;
};

Tokenizer::Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Stream::~Stream() = default;
Tokenizer::Stream::Stream(Stream&&) noexcept = default;

std::string Tokenizer::Stream::add(std::int64_t id) {
  const auto text = state_->data.text_of(id);
  if (!text || (state_->skips_special && state_->data.added.is_special_text(*text))) return {};
  return state_->text.add(*text);
}

std::string Tokenizer::Stream::finish() { return state_->text.finish(); }

Tokenizer::Stream Tokenizer::stream(bool skip_special) const {
  return Stream(std::unique_ptr<Stream::State>(
      new Stream::State{*data_, skip_special, TextOfTokens(data_->decoders)}));
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special) const {
  Stream texts = stream(skip_special);
  std::string text;
  for (const std::int64_t id : ids) text += texts.add(id);
  return text += texts.finish();
}

std::string_view Tokenizer::bytes_of(std::int64_t id) const {
  std::call_once(data_->middles_made, [&] {
    const TokenId limit = std::max(data_->model->vocabulary().limit(), data_->added.limit());
    data_->middles.resize(static_cast<std::size_t>(limit));
    for (TokenId each = 0; each < limit; ++each)
      if (const auto text = data_->text_of(each))
        data_->middles[static_cast<std::size_t>(each)] = data_->decoders.middle(std::string(*text));
  });
  if (id < 0 || static_cast<std::size_t>(id) >= data_->middles.size()) return {};
  return data_->middles[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(std::int64_t id) const { return data_->added.is_special(id); }

std::optional<std::int64_t> Tokenizer::id_of(std::string_view token) const {
  if (const auto id = data_->added.find(token)) return id;
  return data_->model->vocabulary().find(token);
}

}  // namespace sinter::tools
