// SPDX-License-Identifier: Apache-2.0
// Lines under edit: characters stay whole.
#include "tools/cli/line_editor.h"

#include <gmock/gmock.h>

namespace sinter::tests {
namespace {

using tools::EditedLine;

TEST(EditedLine, CharactersAreWhole) {
  EditedLine line;
  line.set("aé漢😀");
  line.erase_before();
  EXPECT_EQ(line.text(), "aé漢");
  line.left();
  line.erase_before();
  EXPECT_EQ(line.text(), "a漢");
  line.insert("ü");
  EXPECT_EQ(line.text(), "aü漢");
  line.to_start();
  line.erase_at();
  EXPECT_EQ(line.text(), "ü漢");
  line.erase_before();  // nothing is there
  line.to_end();
  line.erase_at();
  EXPECT_EQ(line.text(), "ü漢");
}

TEST(EditedLine, WordsAndEndsAreErased) {
  EditedLine line;
  line.set("one two  three  ");
  line.erase_word();
  EXPECT_EQ(line.text(), "one two  ");
  line.left();
  line.erase_to_end();
  EXPECT_EQ(line.text(), "one two ");
  line.erase_to_start();
  EXPECT_TRUE(line.is_empty());
}

TEST(EditedLine, TheViewFitsAroundTheCursor) {
  EditedLine line;
  line.set("漢漢漢漢漢");  // two columns each
  auto view = line.view(7);
  EXPECT_EQ(view.text, "漢漢漢");
  EXPECT_EQ(view.cursor, 6u);
  line.to_start();
  view = line.view(7);
  EXPECT_EQ(view.text, "漢漢漢");
  EXPECT_EQ(view.cursor, 0u);
  line.set("e\xCC\x81x");  // a mark has no column
  EXPECT_EQ(line.view(80).cursor, 2u);
}

}  // namespace
}  // namespace sinter::tests
