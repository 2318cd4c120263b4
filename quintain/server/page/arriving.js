// The way here began on another site, so that the browser has left the cookie away. From here on it
// sends it; the view that the link names, after its #, stays.
location.replace("./?arrived" + location.hash);
