// SPDX-License-Identifier: Apache-2.0
// Before the first paint: light or dark as was chosen, else as the system has it. No module, which would come later.
try {
  const theme = localStorage.getItem('sinter.theme');
  if (theme === '"light"' || theme === '"dark"') document.documentElement.dataset.theme = JSON.parse(theme);
} catch { /* without storage the system decides */ }
