"use strict";(()=>{var e=localStorage.getItem("weir-theme");(e==="light"||e==="dark")&&(document.documentElement.dataset.theme=e);})();
