J¨Ø¾iCÒ7EC)BmC@UCGšCÁ†0C¢êgCåèB<{BºñËÀ®BÂŠ
A]gGBçÆcÂB>C¤ÛçB?ÈÀAÍÏB•êÒBËÔ™BxöCàÁÏ¬ÃAÃ{k§Â0îîÂ¯HÃüÞÂôƒüÂÿE0@y~ÛAH€Â*oÃröîÂÈD|BÔ¼<C9IŒC†ËNC›ŠCpîBE¬%CŠ³AC