#include "tools/tokenizer/word_pieces.h"

#include <algorithm>
#include <utility>

#include "tools/tokenizer/text_normalizer.h"

namespace sinter::tools {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

}  // namespace

void WordPieces::encode(const Vocabulary& vocabulary, std::string_view word,
                        std::vector<TokenId>& ids) const {
  const auto characters =
      word.size() - static_cast<std::size_t>(std::ranges::count_if(word, continues_character));
  const std::size_t begin_of_word = ids.size();
  std::string name;
  for (std::size_t at = 0; at < word.size();) {
    std::size_t end = characters > most_characters_ ? at : word.size();
    for (; end > at; --end) {
      if (end < word.size() && continues_character(word[end])) continue;
      name = at > 0 ? prefix_ : "";
      name += word.substr(at, end - at);
      if (const auto found = vocabulary.find(name); found != vocabulary.end()) {
        ids.push_back(found->second);
        break;
      }
    }
    if (end == at) {
      ids.resize(begin_of_word);
      ids.push_back(unknown_);
      return;
    }
    at = end;
  }
}

std::string without_blanks_of_punctuation(std::string text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replaced(std::move(text), from, to);
  return text;
}

}  // namespace sinter::tools
