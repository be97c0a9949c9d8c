// Finds the sections that have all words of the query, those with a word in the title first, then those with the phrase. The index is loaded as a
// script when it is first needed, so that search works on pages that are opened as files too.
(() => {
  const query = document.getElementById('query');
  const results = document.getElementById('results');
  const article = document.querySelector('article');
  const kMost = 30;

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  // The text around the first word, with each word marked.
  function excerpt(text, words) {
    const first = Math.max(0, text.toLowerCase().indexOf(words[0]));
    const start = text.lastIndexOf(' ', Math.max(0, first - 80)) + 1;
    const shown = text.slice(start, start + 240);
    const paragraph = element('p', start > 0 ? '... ' : '');
    const escaped = words.map(word => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    for (const part of shown.split(new RegExp(`(${escaped.join('|')})`, 'i')))
      paragraph.append(words.includes(part.toLowerCase()) ? element('mark', part) : part);
    return paragraph;
  }

  function show() {
    const words = query.value.toLowerCase().split(/\s+/).filter(word => word.length > 1);
    results.hidden = words.length === 0;
    article.hidden = words.length !== 0;
    results.replaceChildren();
    if (words.length === 0) return;
    const found = window.siteIndex.filter(section => words.every(word => section.lower.includes(word)));
    const phrase = words.join(' ');
    const rank = section => words.filter(word => section.title.toLowerCase().includes(word)).length + (section.lower.includes(phrase) ? 0.5 : 0);
    found.sort((a, b) => rank(b) - rank(a));
    results.append(element('p', found.length === 1 ? '1 section' : `${found.length} sections`));
    for (const section of found.slice(0, kMost)) {
      const link = element('a', section.page === section.title ? section.title : `${section.page}: ${section.title}`);
      link.href = query.dataset.base + section.location;
      link.onclick = () => { query.value = ''; show(); };
      const heading = element('h2', '');
      heading.append(link);
      results.append(heading, excerpt(section.text, words));
    }
  }

  function load() {
    if (window.siteIndex) return show();
    const script = document.createElement('script');
    script.src = query.dataset.base + 'search/search_index.js';
    script.onload = () => {
      const pages = {};
      for (const section of window.siteIndex) {
        const page = section.location.split('#')[0];
        pages[page] ??= section.title;  // the first entry of a page is the whole page
        section.page = pages[page];
        section.lower = `${section.title} ${section.text}`.toLowerCase();
      }
      window.siteIndex = window.siteIndex.filter(section => section.location.includes('#'));
      show();
    };
    document.head.append(script);
  }

  query.addEventListener('input', load);
  document.addEventListener('keydown', event => {
    if (event.key === '/' && document.activeElement !== query) {
      event.preventDefault();
      query.focus();
    }
  });
  // A link to PAGE?q=WORDS shows what the words find.
  query.value = new URLSearchParams(location.search).get('q') ?? '';
  if (query.value !== '') load();
})();
